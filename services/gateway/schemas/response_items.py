"""The items that a response goes on from: a client's `input` as OpenAI's API lists it, and as the model's messages.

Knows messages, calls and their answers. Reasoning is listed, and not shown to the model. There is one item for each
of the client's, so that errors can name it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from services.gateway.errors import InvalidRequest, within
from services.gateway.limits import Limits
from services.gateway.replies.reply import Json
from services.gateway.schemas.decode import FieldRules, convert
from services.gateway.schemas.messages import PART_SEPARATOR, Arguments, refuse_endless
from shared import wire

ItemId: TypeAlias = Annotated[str, Meta(max_length=256)]

TYPES = ("message", "function_call", "function_call_output", "item_reference", "reasoning")
TEXTS = ("input_text", "output_text")

# What a client sends back from an earlier response.
MESSAGE_RULES = FieldRules(ignored=frozenset({"phase", "status"}))
PART_RULES = FieldRules(ignored=frozenset({"annotations", "logprobs", "parsed"}))
CALL_RULES = FieldRules(
    ignored=frozenset({"created_by", "parsed_arguments", "status"}),
    unsupported={"async": (False,), "caller": ({"type": "direct"},), "namespace": ()},
)
ANSWER_RULES = FieldRules(
    ignored=frozenset({"created_by", "name", "status"}), unsupported={"caller": ({"type": "direct"},), "namespace": ()}
)
REASONING_RULES = FieldRules(ignored=frozenset({"content", "encrypted_content", "status", "summary"}))


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Any]
    id: ItemId | None = None


class TextPart(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["input_text", "output_text"]
    text: str


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["function_call"]
    call_id: ItemId
    name: str
    arguments: str
    id: ItemId | None = None


class AnswerItem(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["function_call_output"]
    call_id: ItemId
    output: str | list[Any]
    id: ItemId | None = None


class ItemReference(msgspec.Struct, frozen=True, kw_only=True):
    """Stands for an item of an earlier output."""

    type: Literal["item_reference"]
    id: ItemId


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["reasoning"]
    id: ItemId | None = None


def read_input(raw: str | list[Any], limits: Limits, find: Callable[[str], Json]) -> list[Json]:
    """Args:
    find: an item of an earlier output, by its id.
    """
    items = [{"role": "user", "content": raw}] if isinstance(raw, str) else raw
    if not items:
        raise InvalidRequest("at least one item", "input")
    refuse_endless(items, "input", limits)
    read = []
    for index, item in enumerate(items):
        with within(f"input.{index}"):
            read.append(_item(item, find))
    return read


def conversation(
    instructions: str | None, earlier: Sequence[Json], items: Sequence[Json], limits: Limits
) -> tuple[wire.ChatMessage, ...]:
    """Neighbouring calls, and the message before them, are one message."""
    refuse_endless([*earlier, *items], "input", limits)
    arguments = Arguments(limits.constraints.max_source_bytes)
    messages = [wire.ChatMessage("system", instructions)] if instructions else []
    for place, item in enumerate([*earlier, *items], -len(earlier)):
        with within(f"input.{place}" if place >= 0 else "previous_response_id"):
            _add(messages, item, arguments)
    return tuple(messages)


def _item(raw: Any, find: Callable[[str], Json]) -> Json:
    kind = raw.get("type") if isinstance(raw, dict) else None
    match kind:
        case None | "message":
            return _message(convert(raw, MessageItem, MESSAGE_RULES))
        case "function_call":
            call = convert(raw, CallItem, CALL_RULES)
            return _listed("fc", call, call_id=call.call_id, name=call.name, arguments=call.arguments)
        case "function_call_output":
            answer = convert(raw, AnswerItem, ANSWER_RULES)
            return _listed("fco", answer, call_id=answer.call_id, output=_text(answer.output, "output"))
        case "item_reference":
            return find(convert(raw, ItemReference).id)
        case "reasoning":
            return _listed("rs", convert(raw, ReasoningItem, REASONING_RULES), summary=[])
        case _:
            problem = f"{str(kind)[:32]!r} is not supported, only {', '.join(TYPES)}"
            raise InvalidRequest(problem, "type", "unsupported_parameter")


def _message(item: MessageItem) -> Json:
    part: Json = {"type": "input_text", "text": _text(item.content, "content")}
    if item.role == "assistant":
        part |= {"type": "output_text", "annotations": [], "logprobs": []}
    return _listed("msg", item, role=item.role, content=[part])


def _listed(prefix: str, item: MessageItem | CallItem | AnswerItem | ReasoningItem, **more: Any) -> Json:
    return {"id": item.id or f"{prefix}_{secrets.token_hex(16)}", "type": item.type, "status": "completed", **more}


def _text(content: str | list[Any], param: str) -> str:
    if isinstance(content, str):
        return content
    return PART_SEPARATOR.join(_part(part, f"{param}.{index}") for index, part in enumerate(content))


def _part(raw: Any, path: str) -> str:
    with within(path):
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind not in TEXTS:
            problem = f"{kind[:32]!r} is not supported, only {', '.join(TEXTS)}"
            raise InvalidRequest(problem, "type", "unsupported_parameter")
        return convert(raw, TextPart, PART_RULES).text


def _add(messages: list[wire.ChatMessage], item: Json, arguments: Arguments) -> None:
    match item["type"]:
        case "message":
            role = "system" if item["role"] == "developer" else item["role"]
            messages.append(wire.ChatMessage(role, PART_SEPARATOR.join(part["text"] for part in item["content"])))
        case "function_call":
            function = {"name": item["name"], "arguments": arguments.read(item["arguments"])}
            _add_call(messages, {"id": item["call_id"], "type": "function", "function": function})
        case "function_call_output":
            messages.append(wire.ChatMessage("tool", item["output"], {"tool_call_id": item["call_id"]}))


def _add_call(messages: list[wire.ChatMessage], call: Json) -> None:
    last = messages.pop() if messages and messages[-1].role == "assistant" else wire.ChatMessage("assistant", "")
    calls = [*last.extra.get("tool_calls", ()), call]
    messages.append(wire.ChatMessage("assistant", last.content, {"tool_calls": calls}))
