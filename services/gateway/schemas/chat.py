"""The body of OpenAI's /v1/chat/completions, into the internal form."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import msgspec

from services.gateway.errors import InvalidRequest, within
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.chat import ChatReply
from services.gateway.schemas.call import Call, Terms
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.openai import (
    IGNORED,
    UNSUPPORTED,
    OpenAIFields,
    check_model,
    stream_options,
)
from services.gateway.schemas.sampling import (
    PositiveTokenCount,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from shared import wire
from shared.namespaces import namespace

PART_SEPARATOR = "\n"  # between the text parts of one message

BODY_RULES = FieldRules(
    IGNORED | {"parallel_tool_calls"},
    UNSUPPORTED
    | {
        "add_generation_prompt": (True,),
        "audio": (),
        "chat_template": (),
        "chat_template_kwargs": ({},),
        "continue_final_message": (False,),
        "documents": ([],),
        "function_call": ("none",),
        "functions": ([],),
        "modalities": (["text"],),
        "reasoning_effort": (),
        "tool_choice": ("none", "auto"),
        "tools": ([],),
        "verbosity": (),
        "web_search_options": (),
    },
)
# What a client sends back from an earlier reply, and what tools bring with them.
MESSAGE_RULES = FieldRules(
    unsupported={
        "annotations": ([],),
        "audio": (),
        "function_call": (),
        "refusal": (),
        "tool_call_id": (),
        "tool_calls": ([],),
    }
)


class ChatFields(OpenAIFields, frozen=True, kw_only=True):
    messages: list[Any]
    max_completion_tokens: PositiveTokenCount | None = None  # wins over max_tokens, its older name
    logprobs: bool = False
    top_logprobs: int | None = None


class MessageFields(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Any]
    name: str | None = None


class PartFields(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["text"]
    text: str


def read_chat(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), ChatFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    options = stream_options(fields)
    request = GenerateRequest(
        messages=_messages(fields.messages, terms.limits),
        sampling=to_sampling(
            fields,
            terms,
            seed=fields.seed,
            min_new_tokens=fields.min_tokens,
            logprobs=fields.logprobs,
            top_logprobs=_top_logprobs(fields, terms),
        ),
        text=to_text_options(fields, terms.limits, include_stop=fields.include_stop_str_in_output),
        max_new_tokens=fields.max_completion_tokens or fields.max_tokens,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
    )
    check_range(fields.min_tokens, request.max_new_tokens, "min_tokens")
    return Call(request, fields.stream, partial(ChatReply, options=options, has_logprobs=fields.logprobs), "messages")


def _top_logprobs(fields: ChatFields, terms: Terms) -> int:
    if fields.top_logprobs is None:
        return 0
    if not fields.logprobs:
        raise InvalidRequest("only allowed when logprobs is true", "top_logprobs")
    return check_top_logprobs(fields.top_logprobs, "top_logprobs", terms.limits)


def _messages(raw: list[Any], limits: Limits) -> tuple[wire.ChatMessage, ...]:
    if not raw:
        raise InvalidRequest("at least one message", "messages")
    _refuse_endless(raw, limits)
    return tuple(_message(message, index) for index, message in enumerate(raw))


def _refuse_endless(raw: list[Any], limits: Limits) -> None:
    """Each message and each part is a token or more. Checked first: hundreds of thousands would hold up the loop."""
    count = len(raw) if len(raw) > limits.max_model_len else sum(map(_count_parts, raw))
    if count > limits.max_model_len:
        problem = f"{count} messages or parts cannot fit into the context of {limits.max_model_len} tokens"
        raise InvalidRequest(problem, "messages", "context_length_exceeded")


def _count_parts(raw: Any) -> int:
    content = raw.get("content") if isinstance(raw, dict) else None
    return max(1, len(content)) if isinstance(content, list) else 1


def _message(raw: Any, index: int) -> wire.ChatMessage:
    with within(f"messages.{index}"):
        fields = convert(raw, MessageFields, MESSAGE_RULES)
        role = "system" if fields.role == "developer" else fields.role  # the newer name; templates know the older one
        return wire.ChatMessage(role, _content(fields.content), {"name": fields.name} if fields.name else {})


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
