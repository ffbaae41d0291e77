"""Which definitions have a value that ends: one that needs itself for ever has none. Knows the engine's forms only."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from services.executor.constraint.source.schema_parts import Emitted


def finite_names(definitions: Mapping[str, Emitted]) -> set[str]:
    """Grows from what ends by itself, until nothing more follows."""
    finite: set[str] = set()
    while True:
        more = {name for name, schema in definitions.items() if name not in finite and _is_finite(schema, finite)}
        if not more:
            return finite
        finite |= more


def _is_finite(schema: Any, finite: Set[str]) -> bool:
    if schema is None or schema is False:
        return False
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return name.startswith("any") or name in finite
    if "anyOf" in schema:
        return any(_is_finite(option, finite) for option in schema["anyOf"])
    if schema.get("type") == "array":
        needed = schema.get("minItems", 0)
        prefix = schema.get("prefixItems", [])
        items = [*prefix[:needed], *([schema["items"]] if needed > len(prefix) else [])]
        return all(_is_finite(item, finite) for item in items)
    if schema.get("type") == "object":
        return all(_is_finite(schema["properties"][name], finite) for name in schema["required"])
    return True
