"""The messages of a conversation, into the wire's form: as chat templates want them.

A call's arguments are JSON text at the client's and an object in a template, as transformers has it. What is no JSON
object, as where an earlier reply was cut, stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.limits import Limits
from services.gateway.schemas.decode import FieldRules, check_nesting, convert, missing
from shared import wire

PART_SEPARATOR = "\n"  # between the text parts of one message
ARGUMENTS_AT_ONCE = 4  # of the largest allowed, in all calls of one request; a megabyte is decoded in 0.2 s

# What a client sends back from an earlier reply.
MESSAGE_RULES = FieldRules(
    ignored=frozenset({"parsed"}),
    unsupported={"annotations": ([],), "audio": (), "function_call": (), "refusal": ()},
    instead={"function_call": "tool_calls"},
)
CALL_RULES = FieldRules(ignored=frozenset({"index"}))
FUNCTION_RULES = FieldRules(ignored=frozenset({"parsed_arguments"}))


class MessageFields(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Any] | None = None
    name: str | None = None
    reasoning_content: str | None = None  # of the assistant: what it thought, if the template wants it
    tool_calls: list[Any] = []  # of the assistant
    tool_call_id: str | None = None  # of a tool: which call it answers


class CallFields(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    function: dict[str, Any]
    type: Literal["function"] = "function"


class FunctionCallFields(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    arguments: str = ""


class PartFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["text"]
    text: str


def read_messages(raw: list[Any], limits: Limits) -> tuple[wire.ChatMessage, ...]:
    if not raw:
        raise InvalidRequest("at least one message", "messages")
    refuse_endless(raw, "messages", limits)
    arguments = Arguments(limits.constraints.max_source_bytes)
    return tuple(_message(message, index, arguments) for index, message in enumerate(raw))


def refuse_endless(raw: Sequence[Any], param: str, limits: Limits) -> None:
    """Each message, part and call is a token or more. Checked first: hundreds of thousands would hold up the loop."""
    count = len(raw) if len(raw) > limits.max_model_len else sum(map(_count_parts, raw))
    if count > limits.max_model_len:
        problem = f"{count} messages or parts cannot fit into the context of {limits.max_model_len} tokens"
        raise InvalidRequest(problem, param, "context_length_exceeded")


def _count_parts(raw: Any) -> int:
    parts = (raw.get("content"), raw.get("tool_calls"), raw.get("output")) if isinstance(raw, dict) else ()
    return max(1, sum(len(part) for part in parts if isinstance(part, list)))


def _message(raw: Any, index: int, arguments: Arguments) -> wire.ChatMessage:
    with within(f"messages.{index}"):
        fields = convert(raw, MessageFields, MESSAGE_RULES)
        _check_role(fields)
        if fields.content is None and not fields.tool_calls:
            raise missing("content")
        role = "system" if fields.role == "developer" else fields.role  # the newer name; templates know the older one
        return wire.ChatMessage(role, _content(fields.content or ""), _extra(fields, arguments))


def _check_role(fields: MessageFields) -> None:
    if fields.role != "assistant" and fields.tool_calls:
        raise InvalidRequest("only the assistant calls tools", "tool_calls")
    if fields.role == "tool" and fields.tool_call_id is None:
        raise missing("tool_call_id")
    if fields.role != "tool" and fields.tool_call_id is not None:
        raise InvalidRequest("only a tool answers a call", "tool_call_id")


def _extra(fields: MessageFields, arguments: Arguments) -> dict[str, Any]:
    extra = {
        "name": fields.name,
        "reasoning_content": fields.reasoning_content,
        "tool_calls": [_call(call, index, arguments) for index, call in enumerate(fields.tool_calls)],
        "tool_call_id": fields.tool_call_id,
    }
    return {key: value for key, value in extra.items() if value}


def _call(raw: Any, index: int, arguments: Arguments) -> dict[str, Any]:
    with within(f"tool_calls.{index}"):
        fields = convert(raw, CallFields, CALL_RULES)
        with within("function"):
            function = convert(fields.function, FunctionCallFields, FUNCTION_RULES)
            read = arguments.read(function.arguments)
    return {"id": fields.id, "type": "function", "function": {"name": function.name, "arguments": read}}


class Arguments:
    """Reads those of one request, whose size is bounded: megabytes would hold up the loop."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left_bytes = max_bytes * ARGUMENTS_AT_ONCE

    def read(self, text: str) -> dict[str, Any] | str:
        size = len(text.encode())
        self._left_bytes -= size
        if size > self._max_bytes:
            raise InvalidRequest(f"at most {self._max_bytes} bytes, got {size}", "arguments")
        if self._left_bytes < 0:
            problem = f"at most {self._max_bytes * ARGUMENTS_AT_ONCE} bytes in all calls together"
            raise InvalidRequest(problem, "arguments")
        return _decoded(text)


def _decoded(text: str) -> dict[str, Any] | str:
    """Some clients write nothing for no arguments."""
    try:
        arguments = msgspec.json.decode(text, type=dict[str, Any]) if text.strip() else {}
        check_nesting(arguments, "arguments")
        msgspec.msgpack.encode(arguments)  # so they are sent on; it takes no number of more than 64 bits
    except (msgspec.MsgspecError, RecursionError, OverflowError, InvalidRequest):
        return text
    return arguments


def _content(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return PART_SEPARATOR.join(_part(part, index) for index, part in enumerate(content))


def _part(raw: Any, index: int) -> str:
    with within(f"content.{index}"):
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind != "text":
            raise InvalidRequest(f"{kind[:32]!r} is not supported, only 'text'", "type", "unsupported_parameter")
        return convert(raw, PartFields).text
