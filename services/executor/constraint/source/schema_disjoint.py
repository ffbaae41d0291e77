"""Whether two schemas are known to share no value. Knows the plain cases: types, listed values, a telling property."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from services.executor.constraint.source.schema_parts import Part, each, types_of


def canonical(value: Any) -> str:
    """The same text for what JSON schema takes for the same value: 1 and 1.0, but not 1 and true."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def listed(parts: Sequence[Part]) -> set[str] | None:
    """The values that `const` and `enum` leave, as canonical text; None if they say nothing."""
    lists = [[part.schema["const"]] for part in parts if "const" in part.schema]
    lists += [part.schema["enum"] for part in parts if "enum" in part.schema]
    return set.intersection(*({canonical(value) for value in values} for values in lists)) if lists else None


def disjoint(left: Sequence[Part], right: Sequence[Part]) -> bool:
    """Of what `flatten` gives; a property's own schemas are looked at without their references."""
    one, other = listed(left), listed(right)
    if one is not None and other is not None and not one & other:
        return True
    common = types_of(left) & types_of(right)
    if not common:
        return True
    return common == {"object"} and _told_apart(left, right)


def _told_apart(left: Sequence[Part], right: Sequence[Part]) -> bool:
    ours, theirs = _required(left), _required(right)
    if any(_lacks(right, name) for name in ours) or any(_lacks(left, name) for name in theirs):
        return True
    for name in ours & theirs:
        one, other = listed(_property(left, name)), listed(_property(right, name))
        if one is not None and other is not None and not one & other:
            return True
        if not types_of(_property(left, name)) & types_of(_property(right, name)):
            return True
    return False


def _required(parts: Sequence[Part]) -> set[str]:
    return {name for names, _ in each(parts, "required") for name in names}


def _lacks(parts: Sequence[Part], name: str) -> bool:
    """Whether one of these forbids the property."""
    return any(
        part.get("additionalProperties") is False
        and not part.get("patternProperties")
        and name not in (part.get("properties") or {})
        for part in parts
    )


def _property(parts: Sequence[Part], name: str) -> list[Part]:
    found = [(properties.get(name), path) for properties, path in each(parts, "properties")]
    return [Part(schema, (*path, name)) for schema, path in found if isinstance(schema, dict)]
