"""Anthropic's `tools` and `tool_choice`: which functions a model may call.

`any`: calls alone. A named tool is a single call. Tools that run at Anthropic's are refused, and so are those that are
known to Anthropic's models by their type.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.constraint import Whitespace
from services.gateway.schemas.decode import FieldRules, convert, missing
from services.gateway.schemas.functions import Choice, Function, Tools, checked, number_of, read_functions, tools_of
from shared.config import ConstraintsConfig
from shared.tool_format import ToolFormat

SCHEMA = "input_schema"

TOOL_RULES = FieldRules(
    ignored=frozenset({"cache_control", "eager_input_streaming", "input_examples"}),
    unsupported={"allowed_callers": (["direct"],), "defer_loading": (False,)},
    instead={"parameters": SCHEMA},
)


class ToolFields(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    input_schema: dict[str, Any]  # of an object
    description: str | None = None
    strict: bool = False
    type: Literal["custom"] = "custom"


class ChoiceFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str | None = None  # of the tool
    disable_parallel_tool_use: bool = False


def read_tools(
    tools: list[Any], choice: dict[str, Any], caps: ConstraintsConfig, style: ToolFormat, whitespace: Whitespace
) -> Tools:
    """Raises InvalidRequest for tools that cannot be, and for a choice that they do not allow."""
    functions = read_functions(tools, caps, _function, "name")
    with within("tool_choice"):
        chosen = _choice(convert(choice, ChoiceFields), functions)
    return tools_of(functions, chosen, style, caps, parameters=SCHEMA, whitespace=whitespace)


def _function(raw: Any) -> Function:
    kind = raw.get("type") if isinstance(raw, dict) else None
    if isinstance(kind, str) and kind != "custom":
        raise InvalidRequest(f"{kind[:32]!r} is not supported, only 'custom'", "type", "unsupported_parameter")
    tool = convert(raw, ToolFields, TOOL_RULES)
    function = Function(name=tool.name, description=tool.description, parameters=tool.input_schema, strict=tool.strict)
    return checked(function, SCHEMA)


def _choice(choice: ChoiceFields, functions: list[Function]) -> Choice:
    if choice.type == "tool" and choice.name is None:
        raise missing("name")
    if choice.type != "tool" and choice.name is not None:
        raise InvalidRequest("only goes with the type 'tool'", "name")
    if choice.type in ("any", "tool") and not functions:
        raise InvalidRequest("there are no tools to choose from")
    every, is_one = range(len(functions)), choice.disable_parallel_tool_use
    match choice.type:
        case "none":
            return Choice("none", ())
        case "auto":
            return Choice("auto", every, is_one)
        case "any":
            return Choice("required", every, is_one)
    return Choice("required", (number_of(choice.name or "", functions),), is_one_call=True)
