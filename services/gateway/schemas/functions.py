"""Functions that a model may call, and which of them it may, into a constraint. Knows no API's way to write them.

`none`: the model is not shown the functions, and nothing in its output is read as a call (SGLang's way; in vLLM it
still sees them). `auto`: text or calls. `required`: calls alone. Of these only functions that are allowed; the model is
shown all of them. The arguments obey the function's schema: strictly if the function says so, else what cannot be
enforced of the schema is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import structs

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.call import Names
from services.gateway.schemas.constraint import (
    NOT_ASKED,
    Asked,
    Whitespace,
    bounded_json,
    check_sendable,
    first_repeated,
)
from shared import wire
from shared.config import ConstraintsConfig
from shared.tool_format import ToolFormat

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


class Function(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None  # a JSON schema of an object; by default it has no properties
    strict: bool = False


@dataclass(frozen=True)
class Choice:
    mode: Literal["none", "auto", "required"]
    allowed: Sequence[int]  # numbers of functions
    is_one_call: bool = False


@dataclass(frozen=True)
class Tools:
    """What a request's tools come to, if the model may call any."""

    shown: tuple[dict[str, Any], ...] | None = None
    asked: Asked = NOT_ASKED
    format: ToolFormat | None = None  # how to find calls in the output


def read_functions(
    raw: list[Any], caps: ConstraintsConfig, read: Callable[[Any], Function], name: str
) -> list[Function]:
    """Args:
    read: one tool.
    name: where the function's name stands in a tool.
    """
    if len(raw) > caps.max_tools:
        raise InvalidRequest(f"at most {caps.max_tools} tools, got {len(raw)}", "tools")
    check_sendable(raw, "tools", caps)
    functions = []
    for index, tool in enumerate(raw):
        with within(f"tools.{index}"):
            functions.append(read(tool))
    repeated = first_repeated([function.name for function in functions])
    if repeated is not None:
        raise InvalidRequest(f"{functions[repeated].name!r} stands there twice", f"tools.{repeated}.{name}")
    return functions


def checked(function: Function, parameters: str = "parameters") -> Function:
    """Args:
    parameters: the client's name of them.
    """
    if NAME.fullmatch(function.name) is None:
        raise InvalidRequest("1 to 64 letters, digits, underscores or dashes", "name")
    if (function.parameters or {}).get("type", "object") != "object":
        raise InvalidRequest("the arguments of a function are an object", f"{parameters}.type")
    return function


def number_of(name: str, functions: Sequence[Function]) -> int:
    for index, function in enumerate(functions):
        if function.name == name:
            return index
    raise InvalidRequest(f"no tool is named {name[:64]!r}", "name")


def choice_among(mode: Literal["auto", "required"], tools: Sequence[Any], number: Callable[[Any], int]) -> Choice:
    """Args:
    number: of the function that one of the tools, as this API writes them, names.
    """
    allowed = set()
    for index, tool in enumerate(tools):
        with within(f"tools.{index}"):
            allowed.add(number(tool))
    if not allowed:
        raise InvalidRequest("no tool is allowed; that is none", "tools")
    return Choice(mode, sorted(allowed))


def tools_of(
    functions: Sequence[Function],
    choice: Choice,
    style: ToolFormat,
    caps: ConstraintsConfig,
    *,
    parameters: str,
    whitespace: Whitespace = "fixed",
) -> Tools:
    """Args:
    parameters: where they stand in a tool.
    """
    if not functions or choice.mode == "none":
        return Tools()
    form = {
        "type": "triggered_tags",
        "triggers": style.triggers,
        "tags": [_tag(functions[number], style) for number in choice.allowed],
        "at_least_one": choice.mode == "required",
        "stop_after_first": choice.is_one_call,
        "separator": style.separator,
    }
    source = bounded_json({"type": "structural_tag", "format": form}, "tools", caps)
    constraint = wire.Constraint("structural_tag", source, whitespace=whitespace)
    asked = Asked("tools", constraint, _names(choice.allowed, parameters))
    return Tools(tuple(map(_shown, functions)), asked, structs.replace(style, has_free_text=choice.mode == "auto"))


def _tag(function: Function, style: ToolFormat) -> dict[str, Any]:
    begin, end = style.tag(function.name)
    schema = {"type": "object", **function.parameters} if function.parameters else NO_PARAMETERS
    content = {"type": "json_schema", "json_schema": schema, "strict": function.strict}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _names(numbers: Sequence[int], parameters: str) -> Names:
    places = {
        f"constraint.format.tags.{place}.content.json_schema": f"tools.{number}.{parameters}"
        for place, number in enumerate(numbers)
    }
    return {"constraint": "tools", **places}


def _shown(function: Function) -> dict[str, Any]:
    """As templates know it."""
    parts = {"name": function.name, "description": function.description, "parameters": function.parameters}
    return {"type": "function", "function": {key: part for key, part in parts.items() if part is not None}}
