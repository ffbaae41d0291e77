"""OpenAI's `tools`, `tool_choice` and `parallel_tool_calls`: which functions a model may call.

A named function is `required`, as a single call. `allowed_tools`: `auto` or `required` of some of the functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.decode import convert
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
from services.gateway.schemas.openai import OpenAIFields
from shared.config import ConstraintsConfig
from shared.tool_format import ToolFormat


class ToolFields(OpenAIFields, frozen=True, kw_only=True):
    tools: list[Any] | None = None
    tool_choice: str | dict[str, Any] | None = None  # by default auto where there are tools
    parallel_tool_calls: bool = True


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


def read_tools(fields: ToolFields, caps: ConstraintsConfig, style: ToolFormat) -> Tools:
    """Raises InvalidRequest for tools that cannot be, and for a choice that they do not allow."""
    functions = read_functions(fields.tools or [], caps, _function, "function.name")
    choice = _choice(fields.tool_choice, functions)
    if not fields.parallel_tool_calls:
        choice = replace(choice, is_one_call=True)
    place = "function.parameters"
    return tools_of(functions, choice, style, caps, parameters=place, whitespace=fields.json_whitespace)


def _function(raw: Any) -> Function:
    tool = convert(raw, _Typed)
    with within("function"):
        return checked(convert(tool.function, Function))


def _choice(raw: str | dict[str, Any] | None, functions: list[Function]) -> Choice:
    if not isinstance(raw, dict):
        return choice_by_word(raw, functions)
    refuse_choice_of_none(functions)
    with within("tool_choice"):
        if raw.get("type") == "allowed_tools":
            return _of_allowed(raw, functions)
        return Choice("required", (_number(raw, functions),), is_one_call=True)


def choice_by_word(word: str | None, functions: Sequence[Function]) -> Choice:
    every = range(len(functions))
    match word:
        case None | "auto":
            return Choice("auto", every)
        case "none":
            return Choice("none", ())
        case "required":
            refuse_choice_of_none(functions)
            return Choice("required", every)
        case _:
            raise InvalidRequest("expected none, auto, required, a function or allowed_tools", "tool_choice")


def refuse_choice_of_none(functions: Sequence[Function]) -> None:
    if not functions:
        raise InvalidRequest("there are no tools to choose from", "tool_choice")


def _of_allowed(raw: Any, functions: list[Function]) -> Choice:
    choice = convert(raw, _Allowed)
    with within("allowed_tools"):
        allowed = convert(choice.allowed_tools, _AllowedTools)
        return choice_among(allowed.mode, allowed.tools, lambda tool: _number(tool, functions))


def _number(raw: Any, functions: list[Function]) -> int:
    """Of the function that is named."""
    choice = convert(raw, _Typed)
    with within("function"):
        return number_of(convert(choice.function, _NamedFunction).name, functions)
