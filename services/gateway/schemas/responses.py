"""The body of OpenAI's /v1/responses, into the internal form. Knows earlier responses only as their items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from services.gateway.errors import InvalidRequest, within
from services.gateway.generation import GenerateRequest
from services.gateway.replies.reply import Json
from services.gateway.replies.responses import ResponseReply
from services.gateway.schemas.call import Call, Part, Terms
from services.gateway.schemas.constraint import OTHER_NAMES, Asked, asked_by_fields, check_sendable, only
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.functions import Tools
from services.gateway.schemas.openai import ANY_MODEL, IGNORED, check_model
from services.gateway.schemas.reasoning import read_reasoning
from services.gateway.schemas.response_items import ItemId, conversation, read_input
from services.gateway.schemas.response_tools import ResponseToolFields, asked_by_text_format, read_response_tools
from services.gateway.schemas.sampling import (
    CacheKey,
    Priority,
    Timeout,
    TokenCount,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from shared.namespaces import namespace

LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = (LOGPROBS, "reasoning.encrypted_content")  # of the second there is none here

BODY_RULES = FieldRules(
    IGNORED | {"max_tool_calls"},  # of tools that the server runs itself
    {
        "context_management": ([],),
        "conversation": (),
        "moderation": (),
        "prompt": (),
        "reasoning": ({}, {"effort": None}, {"effort": "none"}, {"effort": None, "summary": None}),
        "truncation": ("disabled",),
    },
    OTHER_NAMES
    | {
        "max_completion_tokens": "max_output_tokens",
        "max_tokens": "max_output_tokens",
        "messages": "input",
        "response_format": "text.format",
    },
)
TEXT_RULES = FieldRules(unsupported={"verbosity": ("medium",)})

Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]


class History(Protocol):
    """Earlier responses. Raises InvalidRequest for what is not there."""

    def conversation(self, name: str) -> Sequence[Json]:
        """The items up to the end of this response."""

    def item(self, item_id: str) -> Json:
        """Of some response's output."""


class ResponseFields(ResponseToolFields, frozen=True, kw_only=True):
    input: str | list[Any]
    model: str = ANY_MODEL
    instructions: str | None = None
    previous_response_id: ItemId | None = None
    max_output_tokens: TokenCount | None = None
    min_tokens: TokenCount = 0
    text: dict[str, Any] | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    metadata: Metadata | None = None
    user: str | None = None
    store: bool = True
    background: bool = False
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    include_stop_str_in_output: bool = False
    chat_template_kwargs: dict[str, Any] | None = None  # further variables of the model's template
    extra_key: CacheKey | None = None
    cache_salt: CacheKey | None = None
    priority: Priority = 0
    timeout: Timeout | None = None  # never longer than the server's own


class TextFields(msgspec.Struct, frozen=True, kw_only=True):
    format: dict[str, Any] | None = None


class ResponseStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    include_obfuscation: bool = False  # padding against observers of packet lengths: accepted, not done


@dataclass(frozen=True)
class ResponseCall:
    call: Call
    reply: Callable[..., ResponseReply]  # the call's, of a head; it takes `on_end` too
    items: Sequence[Json]  # all that the model goes on from
    is_kept: bool
    is_background: bool


def read_response(body: bytes, terms: Terms, history: History) -> ResponseCall:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), ResponseFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    _check_delivery(fields)
    caps = terms.limits.constraints
    text = _text(fields)
    tools = read_response_tools(fields, caps, terms.tool_format)
    asked = only(tools.asked, asked_by_text_format(text.format, fields, caps), asked_by_fields(fields, caps))
    items = read_input(fields.input, terms.limits, history.item)
    earlier = history.conversation(fields.previous_response_id) if fields.previous_response_id is not None else ()
    part = _part(fields, terms, tools, asked, earlier, items)
    reasoning = read_reasoning(terms.reasoning, part.request, tools)
    reply = partial(ResponseReply, echo=_echo(fields, text), tools=tools.format, reasoning=reasoning)
    call = Call((part,), fields.stream, reply)
    return ResponseCall(call, reply, [*earlier, *items], fields.store, fields.background)


def _part(
    fields: ResponseFields, terms: Terms, tools: Tools, asked: Asked, earlier: Sequence[Json], items: Sequence[Json]
) -> Part:
    check_range(fields.min_tokens, fields.max_output_tokens, "min_tokens")
    request = GenerateRequest(
        messages=conversation(fields.instructions, earlier, items, terms.limits),
        tools=tools.shown,
        template_options=_template_options(fields, terms),
        sampling=to_sampling(
            fields,
            terms,
            seed=fields.seed,
            min_new_tokens=fields.min_tokens,
            logprobs=_has_logprobs(fields),
            top_logprobs=_top_logprobs(fields, terms),
        ),
        text=to_text_options(fields, terms.limits, include_stop=fields.include_stop_str_in_output),
        max_new_tokens=fields.max_output_tokens,
        constraint=asked.constraint,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
        timeout_s=fields.timeout,
    )
    return Part(request, {"prompt": "input", "messages": "input", **asked.names})


def _check_delivery(fields: ResponseFields) -> None:
    if fields.stream_options is not None:
        if not fields.stream:
            raise InvalidRequest("only allowed when stream is true", "stream_options")
        with within("stream_options"):
            convert(fields.stream_options, ResponseStreamOptions)
    if fields.background and fields.stream:
        raise InvalidRequest("not supported beside background", "stream", "unsupported_parameter")
    if fields.background and not fields.store:
        raise InvalidRequest("a response in the background is stored, or nobody could read it", "store")


def _text(fields: ResponseFields) -> TextFields:
    with within("text"):
        return convert(fields.text or {}, TextFields, TEXT_RULES)


def _has_logprobs(fields: ResponseFields) -> bool:
    for index, name in enumerate(fields.include or ()):
        if name not in INCLUDABLE:
            problem = f"{name[:64]!r} is not supported, only {' and '.join(INCLUDABLE)}"
            raise InvalidRequest(problem, f"include.{index}", "unsupported_parameter")
    return LOGPROBS in (fields.include or ())


def _top_logprobs(fields: ResponseFields, terms: Terms) -> int:
    if not fields.top_logprobs:
        return 0
    if not _has_logprobs(fields):
        raise InvalidRequest(f"goes with {LOGPROBS} in include", "top_logprobs")
    return check_top_logprobs(fields.top_logprobs, "top_logprobs", terms.limits)


def _template_options(fields: ResponseFields, terms: Terms) -> dict[str, Any]:
    if not fields.chat_template_kwargs:
        return {}
    check_sendable(fields.chat_template_kwargs, "chat_template_kwargs", terms.limits.constraints)
    return {"chat_template_kwargs": fields.chat_template_kwargs}


def _echo(fields: ResponseFields, text: TextFields) -> Json:
    """What a response repeats of its request."""
    return {
        "background": fields.background,
        "instructions": fields.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "metadata": fields.metadata or {},
        "parallel_tool_calls": fields.parallel_tool_calls,
        "previous_response_id": fields.previous_response_id,
        "store": fields.store,
        "temperature": fields.temperature,
        "text": {"format": _shown_format(text.format or {"type": "text"})},
        "tool_choice": fields.tool_choice or "auto",
        "tools": fields.tools or [],
        "top_logprobs": fields.top_logprobs or 0,
        "top_p": fields.top_p,
        "truncation": "disabled",
        "user": fields.user,
    }


def _shown_format(format_: dict[str, Any]) -> dict[str, Any]:
    """A schema's name, and the schema itself, may be left out here, but not at OpenAI's."""
    by_default = {"name": "response", "schema": {}} if format_["type"] == "json_schema" else {}
    return by_default | {name: value for name, value in format_.items() if value is not None}
