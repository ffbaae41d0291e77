"""How a log line names the request that it is about. docs/logs.md says what the names mean."""

from __future__ import annotations

from typing import Any


def named(request_id: str, trace_id: str, **more: Any) -> dict[str, Any]:
    """Args:
    trace_id: empty if the client has named no trace.
    """
    return {"request_id": request_id, **({"trace_id": trace_id} if trace_id else {}), **more}
