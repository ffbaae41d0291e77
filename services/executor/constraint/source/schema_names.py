"""`propertyNames` of a JSON schema: the keys that an object may have. Knows nothing of what stands behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.executor.constraint.source.schema_parts import Context, Emitted, Located, Part, each


@dataclass(frozen=True, slots=True)
class Names:
    """Either `listed`, or what `pattern` matches."""

    listed: tuple[str, ...] | None = None
    pattern: str = ""


def names_of(parts: Sequence[Part], context: Context) -> Names | None:
    """None if any name is allowed."""
    said = list(each(parts, "propertyNames"))
    if not said:
        return None
    path = said[0][1]
    strings = Located({"type": "string"}, (*path, "type"))
    schema = context.built([strings, *(Located(schema, at) for schema, at in said)])
    if schema == {"type": "string"}:
        return None
    names = _read(schema)
    if names is None:
        context.unenforced("propertyNames is kept for listed names, a pattern, a format, or lengths", path)
    return names


def _read(schema: Emitted) -> Names | None:
    if schema is None:
        return Names(listed=())
    if "enum" in schema:
        return Names(listed=tuple(schema["enum"]))
    if schema.keys() == {"type", "pattern"}:
        return Names(pattern=schema["pattern"])
    if schema.keys() <= {"type", "minLength", "maxLength"}:
        return Names(pattern=f"^(?s:.{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}})$")
    return None
