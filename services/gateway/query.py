"""The parameters that may stand behind a route's `?`, checked as the fields of bodies are. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from services.gateway.errors import InvalidRequest
from services.gateway.schemas.decode import FieldRules, convert

# What clients of Azure's and of Anthropic's send with everything.
RULES = FieldRules(ignored=frozenset({"api-version", "beta"}))


class NoQuery(msgspec.Struct, frozen=True):
    pass


class CacheQuery(msgspec.Struct, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100  # nodes of each executor


class FlushQuery(msgspec.Struct, frozen=True):
    timeout: Annotated[float, Meta(ge=0, le=60)] = 5.0  # seconds to wait for a moment of idleness


class ResponseQuery(msgspec.Struct, frozen=True):
    """Of a response that is read once more."""

    stream: bool = False
    starting_after: int | None = None  # an event's number, with stream
    include_obfuscation: bool = False
    include: str | None = msgspec.field(default=None, name="include[]")  # all is included that is there


class InputItemsQuery(msgspec.Struct, frozen=True):
    after: str | None = None  # an item's id
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    include: str | None = msgspec.field(default=None, name="include[]")


QUERIES: Mapping[str, type[msgspec.Struct]] = {
    "/cache": CacheQuery,
    "/flush_cache": FlushQuery,
    "/v1/responses/{response_id}": ResponseQuery,
    "/v1/responses/{response_id}/input_items": InputItemsQuery,
}


def query_type(route: str) -> type[msgspec.Struct]:
    return QUERIES.get(route, NoQuery)


def read_query(route: str, raw: Mapping[str, str]) -> Any:
    """Args:
    raw: perhaps with several values for a name, as aiohttp's multi-dict.
    """
    names = [name for name, _ in raw.items()]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest("stands there twice", repeated)
    return convert(dict(raw), query_type(route), RULES, strict=False)
