"""OpenAI's `response_format`, into a constraint: text, json_object, json_schema, and SGLang's structural_tag."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.constraint import (
    NOT_ASKED,
    Asked,
    ConstraintFields,
    any_object,
    bounded_json,
    schema_json,
)
from services.gateway.schemas.decode import convert, missing
from shared import wire
from shared.config import ConstraintsConfig

FIELD = "response_format"
TYPES = ("text", "json_object", "json_schema", "structural_tag")


class SchemaFields(msgspec.Struct, frozen=True, kw_only=True):
    """`name` and `description` are for the model at OpenAI's; here they change nothing."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None  # by default any object
    strict: bool | None = None  # by default what `strict_schema` says


class _TextFormat(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["text"]


class _ObjectFormat(msgspec.Struct, frozen=True, kw_only=True):
    """With a schema, as llama.cpp takes it, it is as json_schema."""

    type: Literal["json_object"]
    schema: dict[str, Any] | None = None


class _SchemaFormat(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["json_schema"]
    json_schema: dict[str, Any]


def asked_by_format(raw: dict[str, Any] | None, fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    if raw is None:
        return NOT_ASKED
    match raw.get("type"):
        case "json_schema":
            return _of_schema(raw, fields, caps)
        case "structural_tag":
            source = bounded_json(raw, FIELD, caps)
            return _asked(wire.Constraint("structural_tag", source, fields.strict_schema, fields.json_whitespace))
        case "json_object":
            return _of_object(raw, fields, caps)
        case None:
            raise missing(f"{FIELD}.type")
        case "text":
            with within(FIELD):
                convert(raw, _TextFormat)
            return NOT_ASKED
        case _:
            raise InvalidRequest(f"its type is one of {', '.join(TYPES)}", FIELD)


def _of_object(raw: dict[str, Any], fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    with within(FIELD):
        schema = convert(raw, _ObjectFormat).schema
        source = None if schema is None else schema_json(schema, "schema", caps)
    if source is None:
        return _asked(any_object(fields))
    constraint = wire.Constraint("json_schema", source, fields.strict_schema, fields.json_whitespace)
    return _asked(constraint, f"{FIELD}.schema")


def _of_schema(raw: dict[str, Any], fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    with within(FIELD):
        format_ = convert(raw, _SchemaFormat)
        with within("json_schema"):
            chosen = convert(format_.json_schema, SchemaFields)
            if chosen.schema is None:
                return _asked(any_object(fields))
            source = schema_json(chosen.schema, "schema", caps)
    strict = fields.strict_schema if chosen.strict is None else chosen.strict
    constraint = wire.Constraint("json_schema", source, strict, fields.json_whitespace)
    return _asked(constraint, f"{FIELD}.json_schema.schema")


def _asked(constraint: wire.Constraint, name: str = FIELD) -> Asked:
    return Asked(FIELD, constraint, {"constraint": name})
