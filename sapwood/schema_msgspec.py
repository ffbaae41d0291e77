"""The JSON schema of what msgspec reads: msgspec's own, and what that leaves open of how values are written.

Some types have no format there, or one that not all texts of are read; keys that are no texts are not mentioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from sapwood.schema_texts import DURATION, INTEGER, NUMBER, TIME, date_time, written

Schema = dict[str, Any]

DEFS = "#/$defs/"
FIELDS = inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType


def schema_of(of: Any) -> Schema:
    """Raises TypeError for what msgspec does not read."""
    schema = msgspec.json.schema(of)
    _complete(inspect.type_info(of), schema, dict(schema.get("$defs", {})))
    return schema


def _complete(of: inspect.Type, schema: Schema, left: Schema) -> None:
    """Args:
    left: definitions that are not complete yet.
    """
    if "$ref" in schema:
        schema = left.pop(schema["$ref"].removeprefix(DEFS), {})
        if not schema:
            return
    of = _bare(of)
    if text := _text(of):
        schema.pop("format", None)
        schema |= text
    if isinstance(of, inspect.DictType) and (key := _key(_bare(of.key_type))):
        schema["propertyNames"] = key
    for inner, its_schema in _inner(of, schema):
        _complete(inner, its_schema, left)


def _text(of: inspect.Type) -> Schema:
    match of:
        case inspect.DateTimeType(tz=tz):
            return written(date_time(offset="")) if tz is False else {"type": "string", "format": "date-time"}
        case inspect.TimeType(tz=tz):
            return written(TIME) if tz is False else {"type": "string", "format": "time"}
        case inspect.TimeDeltaType():
            return written(DURATION)
        case inspect.DecimalType():
            return written(NUMBER)
        case inspect.BytesType() | inspect.ByteArrayType() | inspect.MemoryViewType():
            return {"type": "string", "format": "base64"}
        case _:
            return {}


def _key(of: inspect.Type) -> Schema:
    match of:
        case inspect.IntType():
            return written(INTEGER)
        case inspect.FloatType():
            return written(NUMBER)
        case inspect.UUIDType():
            return {"format": "uuid"}
        case inspect.DateType():
            return {"format": "date"}
        case inspect.LiteralType(values=values):
            return {"enum": [*map(str, values)]}
        case inspect.EnumType(cls=cls):
            return {"enum": [str(member.value) for member in cls]}
        case _:
            return _text(of)


def _inner(of: inspect.Type, schema: Schema) -> Iterator[tuple[inspect.Type, Schema]]:
    """The types within, and the schemas of them that there are."""
    match of:
        case inspect.TupleType(item_types=types):
            yield from zip(types, schema.get("prefixItems", ()), strict=False)
        case inspect.CollectionType(item_type=item) if "items" in schema:
            yield item, schema["items"]
        case inspect.DictType(value_type=value) if "additionalProperties" in schema:
            yield value, schema["additionalProperties"]
        case inspect.UnionType(types=types):
            yield from zip(_in_order(types), _options(schema), strict=False)
        case _ if isinstance(of, FIELDS) and "properties" in schema:
            for field in of.fields:
                yield field.type, schema["properties"][field.encode_name]
        case _ if isinstance(of, FIELDS):  # an array, with the tag in front if there is one
            yield from zip(reversed([field.type for field in of.fields]), reversed(schema["prefixItems"]), strict=False)


def _in_order(types: tuple[inspect.Type, ...]) -> list[inspect.Type]:
    """As in the schema: objects with tags stand last. None has nothing to complete."""
    bare = [each for each in map(_bare, types) if not isinstance(each, inspect.NoneType)]
    return sorted(bare, key=lambda each: isinstance(each, inspect.StructType) and not each.array_like)


def _options(schema: Schema) -> Iterator[Schema]:
    for option in schema["anyOf"]:
        if "anyOf" in option:
            yield from _options(option)
        elif option != {"type": "null"}:
            yield option


def _bare(of: inspect.Type) -> inspect.Type:
    while isinstance(of, inspect.Metadata):
        of = of.type
    return of
