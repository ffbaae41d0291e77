"""Anthropic's messages and system prompt, into the wire's form: as chat templates want them.

Neighbours of one role are one message, as Anthropic has it. A tool's result is a message of its own: templates show who
speaks by the role. That it is an error they cannot show, so its text has to. Earlier thoughts are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.limits import Limits
from services.gateway.schemas.constraint import bounded_json
from services.gateway.schemas.decode import FieldRules, convert
from services.gateway.schemas.messages import PART_SEPARATOR, Arguments
from shared import wire

# What a client sends back from an earlier reply, and what asks for a cache that is there anyway.
TEXT_RULES = FieldRules(ignored=frozenset({"cache_control", "citations", "parsed_output"}))
TOOL_RULES = FieldRules(ignored=frozenset({"cache_control", "caller", "toolset_name"}))

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

BLOCKS: Mapping[Role, Sequence[str]] = {
    "system": ("text",),
    "user": ("text", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "tool": ("text",),
}


class MessageFields(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Any]


class TextFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["text"]
    text: str


class ToolUseFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] = {}


class ToolResultFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Any] = ""
    is_error: bool = False


def read_conversation(
    messages: list[Any], system: str | list[Any] | None, limits: Limits
) -> tuple[wire.ChatMessage, ...]:
    """Raises InvalidRequest for what is no conversation. If the assistant has the last word, it is to be continued."""
    reader = _Reader(limits)
    with within("system"):
        said = reader.read(system or [], "system")
    for index, raw in enumerate(messages):
        with within(f"messages.{index}"):
            said += reader.message(raw)
    merged = _merged(said)
    if all(message.role == "system" for message in merged):
        raise InvalidRequest("at least one message that says something", "messages")
    if merged[-1].role == "assistant" and merged[-1].extra:
        raise InvalidRequest("its tool_use has no tool_result", f"messages.{len(messages) - 1}")
    return tuple(merged)


class _Reader:
    """Of one request. Bounded: each message and block is a token or more, and too many would hold up the loop."""

    def __init__(self, limits: Limits) -> None:
        self._max_model_len = limits.max_model_len
        self._left = limits.max_model_len
        self._caps = limits.constraints
        self._arguments = Arguments(limits.constraints.max_source_bytes)

    def message(self, raw: Any) -> list[wire.ChatMessage]:
        self._count()
        fields = convert(raw, MessageFields)
        with within("content"):
            return self.read(fields.content, fields.role)

    def read(self, content: str | list[Any], role: Role) -> list[wire.ChatMessage]:
        """A message for each block that says anything."""
        if isinstance(content, str):
            return [wire.ChatMessage(role, content)] if content else []
        said = []
        for index, raw in enumerate(content):
            with within(str(index)):
                said += self._block(raw, role)
        return said

    def _block(self, raw: Any, role: Role) -> list[wire.ChatMessage]:
        self._count()
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind not in BLOCKS[role]:
            problem = f"{kind[:32]!r} is not supported here, only {', '.join(BLOCKS[role])}"
            raise InvalidRequest(problem, "type", "unsupported_parameter")
        match kind:
            case "thinking" | "redacted_thinking":
                return []
            case "tool_use":
                return [self._call(convert(raw, ToolUseFields, TOOL_RULES))]
            case "tool_result":
                return [self._result(convert(raw, ToolResultFields, TOOL_RULES))]
            case _:
                text = convert(raw, TextFields, TEXT_RULES).text
                return [wire.ChatMessage(role, text)] if text else []

    def _call(self, fields: ToolUseFields) -> wire.ChatMessage:
        try:
            arguments = self._arguments.read(bounded_json(fields.input, "input", self._caps))
        except InvalidRequest as refused:
            raise refused.called("input") from None
        call = {"id": fields.id, "type": "function", "function": {"name": fields.name, "arguments": arguments}}
        return wire.ChatMessage("assistant", "", {"tool_calls": [call]})

    def _result(self, fields: ToolResultFields) -> wire.ChatMessage:
        with within("content"):
            parts = self.read(fields.content, "tool")
        text = PART_SEPARATOR.join(part.content for part in parts)
        return wire.ChatMessage("tool", text, {"tool_call_id": fields.tool_use_id})

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            problem = f"so many messages and blocks cannot fit into the context of {self._max_model_len} tokens"
            raise InvalidRequest(problem, code="context_length_exceeded")


def _merged(said: Iterable[wire.ChatMessage]) -> list[wire.ChatMessage]:
    merged: list[wire.ChatMessage] = []
    for role, group in groupby(said, key=lambda message: message.role):
        turn = list(group)
        merged += turn if role == "tool" else [_as_one(turn)]
    return merged


def _as_one(turn: Sequence[wire.ChatMessage]) -> wire.ChatMessage:
    """Messages of one role."""
    content = PART_SEPARATOR.join(message.content for message in turn if message.content)
    calls = [call for message in turn for call in message.extra.get("tool_calls", ())]
    return wire.ChatMessage(turn[0].role, content, {"tool_calls": calls} if calls else {})
