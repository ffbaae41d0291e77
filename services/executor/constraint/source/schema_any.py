"""Any JSON value, for the engine: where a schema is silent. Nests to a bound: a small model does not stop by itself."""

from __future__ import annotations

from typing import Any

from services.executor.constraint.source.schema_numbers import FINEST, LIMIT

NESTING = 16
NAME = "any0"
REFERENCE: dict[str, Any] = {"$ref": f"#/$defs/{NAME}"}
_SCALARS: list[dict[str, Any]] = [
    {"type": "null"},
    {"type": "boolean"},
    {"type": "number", "minimum": -LIMIT, "maximum": LIMIT, "multipleOf": FINEST},
    {"type": "string"},
]


def definitions() -> dict[str, Any]:
    """What `REFERENCE` needs: each level's arrays and objects hold the next one."""
    scalar = {"$ref": "#/$defs/any_scalar"}
    levels = {f"any{level}": {"anyOf": [scalar, *_containers(level + 1)]} for level in range(NESTING + 1)}
    return {**levels, "any_scalar": {"anyOf": _SCALARS}}


def _containers(inner: int) -> list[dict[str, Any]]:
    if inner > NESTING:
        return []
    below = {"$ref": f"#/$defs/any{inner}"}
    return [
        {"type": "array", "items": below},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": below},
    ]
