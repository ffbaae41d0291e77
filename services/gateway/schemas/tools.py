"""Functions that a model may call: OpenAI's `tools`, `tool_choice` and `parallel_tool_calls`, into a constraint.

`none`: the model is not shown the functions, and nothing in its output is read as a call (SGLang's way; in vLLM it
still sees them). `auto`: text or calls. `required` and a named function: calls alone, and of a named one a single call.
In each of these the arguments obey the function's schema: strictly if the function says so, else what cannot be
enforced of the schema is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

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


@dataclass(frozen=True)
class Tools:
    """What a request's tools come to, if the model may call any."""

    shown: tuple[dict[str, Any], ...] | None = None
    asked: Asked = NOT_ASKED
    format: ToolFormat | None = None  # how to find calls in the output


def read_tools(fields: ToolFields, caps: ConstraintsConfig, style: ToolFormat) -> Tools:
    """Raises InvalidRequest for tools that cannot be, and for a choice that they do not allow."""
    functions = _functions(fields.tools or [], caps)
    choice, index = _choice(fields.tool_choice, functions)
    if not functions or choice == "none":
        return Tools()
    allowed = range(len(functions)) if index is None else range(index, index + 1)
    form = {
        "type": "triggered_tags",
        "triggers": style.triggers,
        "tags": [_tag(functions[number], style) for number in allowed],
        "at_least_one": choice == "required",
        "stop_after_first": index is not None or not fields.parallel_tool_calls,
        "separator": style.separator,
    }
    source = bounded_json({"type": "structural_tag", "format": form}, "tools", caps)
    constraint = wire.Constraint("structural_tag", source, whitespace=fields.json_whitespace)
    return Tools(tuple(map(_shown, functions)), Asked("tools", constraint, _names(allowed)), style)


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


def _choice(
    raw: str | dict[str, Any] | None, functions: list[Function]
) -> tuple[Literal["none", "auto", "required"], int | None]:
    """What is to be done, and the number of the one function that is named."""
    if raw in (None, "auto"):
        return "auto", None
    if raw == "none":
        return "none", None
    if isinstance(raw, str) and raw != "required":
        raise InvalidRequest("expected none, auto, required or a function", "tool_choice")
    named = None if isinstance(raw, str) else _named(raw)
    if not functions:
        raise InvalidRequest("there are no tools to choose from", "tool_choice")
    if named is None:
        return "required", None
    for index, function in enumerate(functions):
        if function.name == named:
            return "required", index
    raise InvalidRequest(f"no tool is named {named[:64]!r}", "tool_choice.function.name")


def _named(raw: Any) -> str:
    with within("tool_choice"):
        choice = convert(raw, _Typed)
        with within("function"):
            return convert(choice.function, _NamedFunction).name


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
