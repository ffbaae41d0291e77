"""Objects of a JSON schema, for the engine. Knows nothing of other types.

Properties come in the order of the schema, then those that are only required or listed in `propertyNames`, then others.
Names that no schema speaks of can come twice: a grammar cannot remember them. Whichever value a parser takes is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_names import Names, names_of
from services.executor.constraint.source.schema_parts import Context, Emitted, Located, Part, each, greatest, least
from services.executor.constraint.source.schema_patterns import search_exactly
from services.executor.constraint.source.schema_strings import writable


def object_(parts: Sequence[Part], context: Context) -> Emitted:
    required = list(dict.fromkeys(name for names, _ in each(parts, "required") for name in names))
    names = list(dict.fromkeys([*(name for found, _ in each(parts, "properties") for name in found), *required]))
    allowed = names_of(parts, context)
    if allowed is not None and allowed.listed is not None:
        names = list(dict.fromkeys([*(name for name in names if name in allowed.listed), *allowed.listed]))
        if missing := [name for name in required if name not in allowed.listed]:
            return context.never(f"property {missing[0]!r} is required, and is not one of propertyNames", parts[0].path)
    properties = {name: _property(parts, name, context) for name in names}
    for name in required:
        if properties[name] is None:
            return context.never(f"property {name!r} is required, and no value of it is valid", parts[0].path)
    patterns = _patterns(parts, names, context)
    extra = context.child([Located(value, path) for value, path in each(parts, "additionalProperties")])
    if allowed is not None:
        patterns, extra = _within(allowed, names, patterns, extra, parts, context), None
    result: dict[str, Any] = {
        "type": "object",
        "properties": {name: False if value is None else value for name, value in properties.items()},
        "required": required,
        **({"patternProperties": patterns} if patterns else {}),
        "additionalProperties": False if extra is None else extra,
    }
    return _counted(result, greatest(parts, "minProperties"), least(parts, "maxProperties"), parts, context)


def _within(
    allowed: Names, names: list[str], patterns: dict[str, Any], extra: Emitted, parts: Sequence[Part], context: Context
) -> dict[str, Any]:
    """The patterns of what keys there may be besides those that are named."""
    if allowed.listed is not None:
        return {}
    if names or patterns:
        path = next(each(parts, "propertyNames"))[1]
        context.unenforced("propertyNames that are not listed are kept where no property is named", path)
    return {allowed.pattern: False if extra is None else extra}


def _property(parts: Sequence[Part], name: str, context: Context) -> Emitted:
    if not writable(name):
        return context.never(f"the name {name!r} has a control character", ())
    return context.child([located for part in parts for located in _schemas(part, name, context)])


def _schemas(part: Part, name: str, context: Context) -> list[Located]:
    """What one part says of a property."""
    found = []
    properties = part.get("properties") or {}
    if name in properties:
        found.append(Located(properties[name], part.at("properties", name)))
    for pattern, schema in (part.get("patternProperties") or {}).items():
        path = part.at("patternProperties", pattern)
        if context.matches.search(pattern, name, path):
            found.append(Located(schema, path))
    if not found and part.get("additionalProperties") is not None:
        found.append(Located(part.get("additionalProperties"), part.at("additionalProperties")))
    return found


def _patterns(parts: Sequence[Part], names: list[str], context: Context) -> dict[str, Any]:
    holders = [part for part in parts if part.get("patternProperties")]
    for other in holders[1:]:
        context.unenforced("patternProperties of two schemas that apply together", other.at("patternProperties"))
    result: dict[str, Any] = {}
    for holder in holders[:1]:
        for pattern, schema in holder.get("patternProperties").items():
            path = holder.at("patternProperties", pattern)
            if any(context.matches.search(pattern, name, path) for name in names):
                context.unenforced("a property is named and matches a pattern, too", path)
                continue
            others = [
                Located(value, at) for value, at in each([p for p in parts if p is not holder], "additionalProperties")
            ]
            emitted = context.child([Located(schema, path), *others])
            searched = _searched(pattern, path, context)
            if searched is not None:
                result[searched] = False if emitted is None else emitted
    return result


def _searched(pattern: str, path: Path, context: Context) -> str | None:
    try:
        return search_exactly(pattern, context.caps)
    except Refused as refused:
        context.unenforced(refused.message, path)
        return None


def _counted(result: dict[str, Any], low: int, high: int | None, parts: Sequence[Part], context: Context) -> Emitted:
    """With the bounds on how many properties there are, as far as the engine can count."""
    required = len(result["required"])
    possible = sum(1 for value in result["properties"].values() if value is not False)
    closed = result["additionalProperties"] is False and "patternProperties" not in result
    low = low if low > required else 0
    high = None if high is None or (closed and high >= possible) else high
    if (high is not None and max(low, required) > high) or (closed and low > possible):
        return context.never("no object has so few properties, or so many", parts[0].path)
    if high == required:
        kept = {name: value if name in result["required"] else False for name, value in result["properties"].items()}
        return {"type": "object", "properties": kept, "required": result["required"], "additionalProperties": False}
    if not low and high is None:
        return result
    countable = possible == required or (closed and high in (None, required + 1))
    if not countable or low > required + 1:
        keyword = "minProperties" if low else "maxProperties"
        context.unenforced(f"{keyword} cannot be counted here", next(each(parts, keyword))[1])
        return result
    return {**result, **({"minProperties": low} if low else {}), **({} if high is None else {"maxProperties": high})}
