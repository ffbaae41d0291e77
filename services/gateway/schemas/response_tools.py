"""Tools and formats as bodies of /v1/responses write them: flat, where chat's have a part of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.constraint import Asked, ConstraintFields
from services.gateway.schemas.decode import FieldRules, as_object, convert
from services.gateway.schemas.functions import (
    Choice,
    Function,
    Tools,
    checked,
    choice_among,
    number_of,
    read_functions,
    tools_of,
)
from services.gateway.schemas.response_format import asked_by_format
from services.gateway.schemas.tools import choice_by_word, refuse_choice_of_none
from shared.config import ConstraintsConfig
from shared.tool_format import ToolFormat

FORMAT = "text.format"

TOOL_RULES = FieldRules(
    ignored=frozenset({"output_schema"}),
    unsupported={"allowed_callers": (["direct"],), "async": (False,), "defer_loading": (False,)},
)


class FunctionTool(Function, frozen=True, kw_only=True):
    type: Literal["function"]


class NamedFunction(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["function"]
    name: str


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[Any]


class ResponseToolFields(ConstraintFields, frozen=True, kw_only=True):
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None  # by default auto where there are tools
    parallel_tool_calls: bool = True


def read_response_tools(fields: ResponseToolFields, caps: ConstraintsConfig, style: ToolFormat) -> Tools:
    """Raises InvalidRequest for tools that cannot be, and for a choice that they do not allow."""
    functions = read_functions(fields.tools or [], caps, _function, "name")
    choice = _choice(fields.tool_choice, functions)
    if not fields.parallel_tool_calls:
        choice = replace(choice, is_one_call=True)
    return tools_of(functions, choice, style, caps, parameters="parameters", whitespace=fields.json_whitespace)


def asked_by_text_format(raw: dict[str, Any] | None, fields: ConstraintFields, caps: ConstraintsConfig) -> Asked:
    try:
        asked = asked_by_format(None if raw is None else _nested(raw), fields, caps)
    except InvalidRequest as error:
        raise error.called(_flat_name(error.error.param or FORMAT)) from None
    return Asked(FORMAT, asked.constraint, {name: _flat_name(place) for name, place in asked.names.items()})


def _function(raw: Any) -> Function:
    _check_kind(raw)
    return checked(convert(raw, FunctionTool, TOOL_RULES))


def _choice(raw: str | dict[str, Any] | None, functions: list[Function]) -> Choice:
    if not isinstance(raw, dict):
        return choice_by_word(raw, functions)
    refuse_choice_of_none(functions)
    with within("tool_choice"):
        if raw.get("type") == "allowed_tools":
            allowed = convert(raw, AllowedTools)
            return choice_among(allowed.mode, allowed.tools, lambda tool: _number(tool, functions))
        return Choice("required", (_number(raw, functions),), is_one_call=True)


def _number(raw: Any, functions: list[Function]) -> int:
    _check_kind(raw)
    return number_of(convert(raw, NamedFunction).name, functions)


def _check_kind(raw: Any) -> None:
    kind = as_object(raw).get("type")
    if isinstance(kind, str) and kind != "function":
        raise InvalidRequest(f"{kind[:32]!r} is not supported, only 'function'", "type", "unsupported_parameter")


def _nested(raw: dict[str, Any]) -> dict[str, Any]:
    if raw.get("type") != "json_schema":
        return raw
    return {"type": "json_schema", "json_schema": {name: value for name, value in raw.items() if name != "type"}}


def _flat_name(param: str) -> str:
    return param.replace("response_format.json_schema", FORMAT, 1).replace("response_format", FORMAT, 1)
