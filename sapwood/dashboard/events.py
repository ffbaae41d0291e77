"""Log lines as server-sent events: each `data:` line is one log line, each event one portion of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

CONTENT_TYPE = "text/event-stream; charset=utf-8"
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}

NOTHING_NEW = b":\n\n"  # a comment: all is read that there is
POLL_S = 0.25


def event(lines: Iterable[bytes]) -> bytes:
    """Nothing but JSON objects; the rest is said by libraries, or for people."""
    data = [b"data: " + line.rstrip().replace(b"\r", b" ") + b"\n" for line in lines if line.startswith(b"{")]
    return b"".join(data) + b"\n" if data else b""
