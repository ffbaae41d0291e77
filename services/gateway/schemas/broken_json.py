"""Names the field of a body that is no JSON though Python's own parser reads it: NaN, infinity, half a surrogate pair.

Clients in Python write such bodies. Knows nothing of what fields mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from services.gateway.errors import InvalidRequest

MAX_BYTES = 64 * 1024  # a larger body is not worth a second parser's time
LONGEST_PARAM = 128


def explained(body: bytes) -> InvalidRequest | None:
    """None where nothing better can be said than that it is no JSON."""
    if len(body) > MAX_BYTES:
        return None
    try:
        return next(_problems(json.loads(body), ()), None)
    except (ValueError, RecursionError):
        return None


def _problems(value: Any, path: tuple[str, ...]) -> Iterator[InvalidRequest]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _problems(name, path)
                yield from _problems(inner, (*path, name))
        case list():
            for place, inner in enumerate(value):
                yield from _problems(inner, (*path, str(place)))
        case str() if not _is_text(value):
            yield _problem("a lone surrogate is no character", path)
        case float() if not math.isfinite(value):
            yield _problem("not a finite number", path)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _problem(what: str, path: tuple[str, ...]) -> InvalidRequest:
    return InvalidRequest(what, ".".join(path)[:LONGEST_PARAM] or None, "invalid_json")
