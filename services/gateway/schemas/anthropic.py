"""The bodies of Anthropic's /v1/messages and /v1/messages/count_tokens, into the internal forms."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, structs

from services.gateway.errors import InvalidRequest
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.anthropic import AnthropicReply
from services.gateway.schemas.anthropic_format import asked_by_config, asked_by_format
from services.gateway.schemas.anthropic_messages import read_conversation
from services.gateway.schemas.anthropic_thinking import Thinking, read_thinking
from services.gateway.schemas.anthropic_tools import read_tools
from services.gateway.schemas.call import Call, Part, Terms
from services.gateway.schemas.constraint import (
    OTHER_NAMES,
    Asked,
    ConstraintFields,
    asked_by_fields,
    check_sendable,
    only,
)
from services.gateway.schemas.decode import FieldRules, convert, decode_object, field_names
from services.gateway.schemas.functions import Tools
from services.gateway.schemas.openai import check_model
from services.gateway.schemas.reasoning import read_reasoning
from services.gateway.schemas.sampling import (
    CacheKey,
    Priority,
    Timeout,
    TokenCount,
    check_range,
    to_sampling,
    to_text_options,
)
from services.gateway.schemas.text import CALL_ID
from shared import wire
from shared.config import ConstraintsConfig
from shared.namespaces import namespace
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat

BODY_RULES = FieldRules(
    # The cache needs no marks.
    ignored=frozenset(
        {
            "cache_control",
            "diagnostics",
            "inference_geo",
            "metadata",
            "service_tier",
            "speed",
            "user_profile_id",
            "workspace_id",
        }
    ),
    unsupported={"container": (), "context_management": (), "mcp_servers": ([],)},
    instead=OTHER_NAMES
    | {
        "max_completion_tokens": "max_tokens",
        "max_tokens_to_sample": "max_tokens",
        "prompt": "messages",
        "response_format": "output_config.format",
        "stop": "stop_sequences",
    },
)


class CountFields(ConstraintFields, frozen=True, kw_only=True):
    """What says what is asked of the model. Where tokens are counted only a part of it matters."""

    model: str
    messages: list[Any]
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None  # an earlier place of output_config.format
    temperature: Annotated[float, Meta(ge=0, le=1)] = 1.0
    stop: list[str] = msgspec.field(default_factory=list, name="stop_sequences")
    chat_template_kwargs: dict[str, Any] | None = None  # further variables of the model's template


class MessagesFields(CountFields, frozen=True, kw_only=True):
    max_tokens: TokenCount
    min_tokens: TokenCount = 0
    stream: bool = False
    extra_key: CacheKey | None = None
    cache_salt: CacheKey | None = None
    priority: Priority = 0
    timeout: Timeout | None = None  # never longer than the server's own


# One body fits both routes.
COUNT_RULES = structs.replace(BODY_RULES, ignored=BODY_RULES.ignored | field_names(MessagesFields))


def read_anthropic(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), MessagesFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    caps = terms.limits.constraints
    thinking = read_thinking(fields.thinking, terms.reasoning)
    tools = _tools(fields, caps, terms.tool_format)
    asked = _asked(fields, tools, caps)
    messages = read_conversation(fields.messages, fields.system, terms.limits)
    request = GenerateRequest(
        messages=messages,
        tools=tools.shown,
        template_options=_template_options(fields, messages, thinking, caps),
        sampling=to_sampling(
            fields, terms, seed=fields.seed, min_new_tokens=fields.min_tokens, logprobs=False, top_logprobs=0
        ),
        text=_text_options(fields, terms.limits),
        max_new_tokens=fields.max_tokens,
        constraint=asked.constraint,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
        timeout_s=fields.timeout,
    )
    check_range(fields.min_tokens, fields.max_tokens, "min_tokens")
    reply = partial(
        AnthropicReply,
        max_tokens=fields.max_tokens,
        tools=tools.format,
        reasoning=read_reasoning(terms.reasoning, request, tools),
        shows_thoughts=thinking.is_shown,
    )
    return Call((Part(request, {"prompt": "messages", **asked.names}),), fields.stream, reply)


def read_count(body: bytes, limits: Limits, style: ToolFormat, reasoning: ReasoningFormat | None = None) -> wire.Text:
    """Raises ApiError for whatever cannot be counted."""
    fields = convert(decode_object(body), CountFields, COUNT_RULES)
    check_model(fields.model, limits)
    thinking = read_thinking(fields.thinking, reasoning)
    messages = read_conversation(fields.messages, fields.system, limits)
    return wire.Text(
        CALL_ID,
        "count",
        messages=messages,
        tools=_tools(fields, limits.constraints, style).shown,
        template_options=_template_options(fields, messages, thinking, limits.constraints),
    )


def _tools(fields: CountFields, caps: ConstraintsConfig, style: ToolFormat) -> Tools:
    return read_tools(fields.tools or [], fields.tool_choice or {}, caps, style, fields.json_whitespace)


def _asked(fields: CountFields, tools: Tools, caps: ConstraintsConfig) -> Asked:
    by_config = asked_by_config(fields.output_config or {}, fields, caps)
    by_format = asked_by_format(fields.output_format, "output_format", fields, caps)
    return only(tools.asked, by_config, by_format, asked_by_fields(fields, caps))


def _text_options(fields: CountFields, limits: Limits) -> wire.TextOptions:
    try:
        return to_text_options(fields, limits, include_stop=False)
    except InvalidRequest as refused:
        param = refused.error.param
        raise refused.called("stop_sequences" if param == "stop" else param) from None


def _template_options(
    fields: CountFields, messages: tuple[wire.ChatMessage, ...], thinking: Thinking, caps: ConstraintsConfig
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    variables = thinking.variables | (fields.chat_template_kwargs or {})
    if variables:
        check_sendable(variables, "chat_template_kwargs", caps)
        options["chat_template_kwargs"] = variables
    if messages[-1].role == "assistant":
        options["continue_final_message"] = True
    return options
