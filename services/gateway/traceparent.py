"""The header by which a client says which trace its request belongs to: https://www.w3.org/TR/trace-context/.

What does not follow it is ignored, as it says there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NO_VERSION = "ff"
_SAMPLED = 1  # of the flags


class Parent(NamedTuple):
    """What the request was sent for."""

    trace_id: str
    span_id: str
    is_sampled: bool  # whether its sender keeps the trace


def read_parent(headers: Sequence[str]) -> Parent | None:
    """Of all such headers of a request: None unless it is one, and valid."""
    found = _FORM.fullmatch(headers[0].strip(" \t")) if len(headers) == 1 else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _NO_VERSION or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return Parent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))
