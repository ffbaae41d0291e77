"""Arrays of a JSON schema, for the engine. Knows nothing of other types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.schema_parts import Context, Emitted, Located, Part, each, greatest, least

MOST_ITEMS = 1000  # with a bound; the engine has a node for each


def array(parts: Sequence[Part], context: Context) -> Emitted:
    low, high = greatest(parts, "minItems"), least(parts, "maxItems")
    if low > MOST_ITEMS:
        raise Refused(f"at most {MOST_ITEMS} items can be asked for", next(each(parts, "minItems"))[1])
    high = None if high is None else min(high, MOST_ITEMS)
    prefix = _prefix(parts, context)
    rest = context.child(_item(parts, len(prefix)))
    possible = prefix.index(None) if None in prefix else len(prefix) if rest is None else None
    if possible is not None:
        prefix = prefix[:possible]
        high = possible if high is None else min(high, possible)
    if high is not None and low > high:
        return context.never(f"no array has {low} to {high} items", parts[0].path if parts else ())
    return _emitted(prefix, rest, low, high)


def _emitted(prefix: list[Emitted], rest: Emitted, low: int, high: int | None) -> Emitted:
    result: dict[str, Any] = {"type": "array"}
    if prefix:
        result["prefixItems"] = prefix
    result["items"] = False if rest is None else rest
    if low:
        result["minItems"] = low
    if high is not None:
        result["maxItems"] = high
    return result


def _prefix(parts: Sequence[Part], context: Context) -> list[Emitted]:
    length = max((len(items) for items, _ in each(parts, "prefixItems")), default=0)
    return [context.child(_item(parts, index)) for index in range(length)]


def _item(parts: Sequence[Part], index: int) -> list[Located]:
    """What the parts say of the item there."""
    found = []
    for part in parts:
        prefix = part.get("prefixItems") or []
        if index < len(prefix):
            found.append(Located(prefix[index], part.at("prefixItems", index)))
        elif part.get("items") is not None:
            found.append(Located(part.get("items"), part.at("items")))
    return found
