"""Functions that a model may call: OpenAI's `tools`, `tool_choice` and `parallel_tool_calls`, into a constraint.

`none`: the model is not shown the functions, and nothing in its output is read as a call (SGLang's way; in vLLM it
still sees them). `auto`: text or calls. `required` and a named function: calls alone, and of a named one a single call.
`allowed_tools`: `auto` or `required` of some of the functions; the model is shown all of them.
In each of these the arguments obey the function's schema: strictly if the function says so, else what cannot be
enforced of the schema is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import structs

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.call import Names
from services.gateway.schemas.constraint import NOT_ASKED, Asked, bounded_json, first_repeated
from services.gateway.schemas.decode import convert
from services.gateway.schemas.openai import OpenAIFields
from shared import wire
from shared.config import ConstraintsConfig
from shared.tool_format import ToolFormat

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


class ToolFields(OpenAIFields, frozen=True, kw_only=True):
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None  # by default auto where there are tools
    parallel_tool_calls: bool = True


class Function(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None  # a JSON schema of an object; by default it has no properties
    strict: bool = False


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, or the choice of one."""

    type: Literal["function"]
    function: dict[str, Any]


class _NamedFunction(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class _Allowed(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["allowed_tools"]
    allowed_tools: dict[str, Any]


class _AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    mode: Literal["auto", "required"]
    tools: list[Any]


@dataclass(frozen=True)
class _Choice:
    mode: Literal["none", "auto", "required"]
    allowed: Sequence[int]  # numbers of functions
    is_one_call: bool = False


@dataclass(frozen=True)
class Tools:
    """What a request's tools come to, if the model may call any."""

    shown: tuple[dict[str, Any], ...] | None = None
    asked: Asked = NOT_ASKED
    format: ToolFormat | None = None  # how to find calls in the output


def read_tools(fields: ToolFields, caps: ConstraintsConfig, style: ToolFormat) -> Tools:
    """Raises InvalidRequest for tools that cannot be, and for a choice that they do not allow."""
    functions = _functions(fields.tools or [], caps)
    choice = _choice(fields.tool_choice, functions)
    if not functions or choice.mode == "none":
        return Tools()
    form = {
        "type": "triggered_tags",
        "triggers": style.triggers,
        "tags": [_tag(functions[number], style) for number in choice.allowed],
        "at_least_one": choice.mode == "required",
        "stop_after_first": choice.is_one_call or not fields.parallel_tool_calls,
        "separator": style.separator,
    }
    source = bounded_json({"type": "structural_tag", "format": form}, "tools", caps)
    constraint = wire.Constraint("structural_tag", source, whitespace=fields.json_whitespace)
    asked = Asked("tools", constraint, _names(choice.allowed))
    return Tools(tuple(map(_shown, functions)), asked, structs.replace(style, has_free_text=choice.mode == "auto"))


def _functions(raw: list[Any], caps: ConstraintsConfig) -> list[Function]:
    if len(raw) > caps.max_tools:
        raise InvalidRequest(f"at most {caps.max_tools} tools, got {len(raw)}", "tools")
    bounded_json(raw, "tools", caps)
    functions = [_function(tool, index) for index, tool in enumerate(raw)]
    index = first_repeated([function.name for function in functions])
    if index is not None:
        raise InvalidRequest(f"{functions[index].name!r} stands there twice", f"tools.{index}.function.name")
    return functions


def _function(raw: Any, index: int) -> Function:
    with within(f"tools.{index}"):
        tool = convert(raw, _Typed)
        with within("function"):
            function = convert(tool.function, Function)
            if NAME.fullmatch(function.name) is None:
                raise InvalidRequest("1 to 64 letters, digits, underscores or dashes", "name")
            kind = (function.parameters or {}).get("type", "object")
            if kind != "object":
                raise InvalidRequest("the arguments of a function are an object", "parameters.type")
            return function


def _choice(raw: str | dict[str, Any] | None, functions: list[Function]) -> _Choice:
    every = range(len(functions))
    if raw in (None, "auto"):
        return _Choice("auto", every)
    if raw == "none":
        return _Choice("none", ())
    if isinstance(raw, str) and raw != "required":
        raise InvalidRequest("expected none, auto, required, a function or allowed_tools", "tool_choice")
    if not functions:
        raise InvalidRequest("there are no tools to choose from", "tool_choice")
    if isinstance(raw, str):
        return _Choice("required", every)
    with within("tool_choice"):
        if raw.get("type") == "allowed_tools":
            return _of_allowed(raw, functions)
        return _Choice("required", (_number(raw, functions),), is_one_call=True)


def _of_allowed(raw: Any, functions: list[Function]) -> _Choice:
    choice = convert(raw, _Allowed)
    with within("allowed_tools"):
        allowed = convert(choice.allowed_tools, _AllowedTools)
        numbers = set()
        for index, tool in enumerate(allowed.tools):
            with within(f"tools.{index}"):
                numbers.add(_number(tool, functions))
        if not numbers:
            raise InvalidRequest("no tool is allowed; that is none", "tools")
    return _Choice(allowed.mode, sorted(numbers))


def _number(raw: Any, functions: list[Function]) -> int:
    """Of the function that is named."""
    choice = convert(raw, _Typed)
    with within("function"):
        named = convert(choice.function, _NamedFunction).name
        for index, function in enumerate(functions):
            if function.name == named:
                return index
        raise InvalidRequest(f"no tool is named {named[:64]!r}", "name")


def _tag(function: Function, style: ToolFormat) -> dict[str, Any]:
    begin, end = style.tag(function.name)
    schema = {"type": "object", **function.parameters} if function.parameters else NO_PARAMETERS
    content = {"type": "json_schema", "json_schema": schema, "strict": function.strict}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _names(numbers: Sequence[int]) -> Names:
    places = {
        f"constraint.format.tags.{place}.content.json_schema": f"tools.{number}.function.parameters"
        for place, number in enumerate(numbers)
    }
    return {"constraint": "tools", **places}


def _shown(function: Function) -> dict[str, Any]:
    """As templates know it."""
    parts = {"name": function.name, "description": function.description, "parameters": function.parameters}
    return {"type": "function", "function": {key: part for key, part in parts.items() if part is not None}}
