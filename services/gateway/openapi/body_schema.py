"""From the structs and rules that read bodies to JSON schemas of them. Knows msgspec; does not know any body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from services.gateway.schemas.decode import NO_RULES, FieldRules

Json: TypeAlias = dict[str, Any]

NULL: Json = {"type": "null"}
REF = "#/components/schemas/{name}"


def ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}


def one_or_more(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def array(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def or_null(schema: Json) -> Json:
    """A field that is null counts as absent."""
    default = {"default": schema["default"]} if "default" in schema else {}
    bare = {key: value for key, value in schema.items() if key != "default"}
    kinds = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": [*kinds, *([] if NULL in kinds else [NULL])]} | default


def exactly_one(*names: str) -> Json:
    """Of these fields one is there, and not null."""
    return {"oneOf": [{"required": [name], "properties": {name: {"not": NULL}}} for name in names]}


def body_schema(struct: type[msgspec.Struct], rules: FieldRules = NO_RULES, parts: Mapping[str, Json] = {}) -> Json:
    """Args:
    parts: what the struct leaves open, by field.
    """
    schema: Json = msgspec.json.schema(struct)["$defs"][struct.__name__]
    required = schema.get("required", [])
    fields = {**schema["properties"], **parts}
    properties = _foreign(rules) | {
        name: field if name in required else or_null(field) for name, field in fields.items()
    }
    return schema | {"properties": properties, "additionalProperties": False}


def _foreign(rules: FieldRules) -> Json:
    """What is accepted though it does nothing."""
    ignored: Json = {name: {"description": "Ignored."} for name in sorted(rules.ignored)}
    refused = {name: rules.unsupported.get(name, ()) for name in sorted({*rules.unsupported, *rules.instead})}
    return ignored | {
        name: {"enum": [*values, None], "description": _instead(name, rules)} for name, values in refused.items()
    }


def _instead(name: str, rules: FieldRules) -> str:
    return f"Not supported: use {rules.instead[name]}." if name in rules.instead else "Not supported."
