"""The header by which a client says which trace its request belongs to: https://www.w3.org/TR/trace-context/.

What does not follow it is ignored, as it says there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NO_VERSION = "ff"


def read_trace_id(headers: Sequence[str]) -> str:
    """Of all such headers of a request: empty unless it is one, and valid."""
    found = _FORM.fullmatch(headers[0].strip(" \t")) if len(headers) == 1 else None
    if found is None:
        return ""
    version, trace_id, span_id, _, more = found.groups()
    if version == _NO_VERSION or (version == "00" and more is not None):
        return ""
    return str(trace_id) if trace_id.strip("0") and span_id.strip("0") else ""
