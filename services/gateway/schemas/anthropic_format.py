"""Anthropic's `output_config`, into a constraint. Its effort is the model's own affair."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from services.gateway.errors import within
from services.gateway.schemas.constraint import NOT_ASKED, Asked, ConstraintFields, schema_json
from services.gateway.schemas.decode import FieldRules, convert
from shared import wire
from shared.config import ConstraintsConfig

CONFIG_RULES = FieldRules(ignored=frozenset({"effort"}), unsupported={"task_budget": ()})


class ConfigFields(msgspec.Struct, frozen=True, kw_only=True):
    format: dict[str, Any] | None = None


class FormatFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["json_schema"]
    schema: dict[str, Any]


def asked_by_config(raw: dict[str, Any], fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    with within("output_config"):
        chosen = convert(raw, ConfigFields, CONFIG_RULES).format
    return asked_by_format(chosen, "output_config.format", fields, caps)


def asked_by_format(raw: dict[str, Any] | None, place: str, fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    """Args:
    place: where in the body it stands.
    """
    if raw is None:
        return NOT_ASKED
    with within(place):
        source = schema_json(convert(raw, FormatFields).schema, "schema", caps)
    constraint = wire.Constraint("json_schema", source, fields.strict_schema, fields.json_whitespace)
    return Asked(place, constraint, {"constraint": f"{place}.schema"})
