"""The body of OpenAI's /v1/chat/completions, into the internal form."""

from __future__ import annotations

from functools import partial
from typing import Any

from services.gateway.errors import InvalidRequest
from services.gateway.generation import GenerateRequest
from services.gateway.replies.chat import ChatReply
from services.gateway.schemas.call import Call, Part, Terms, check_choices
from services.gateway.schemas.constraint import OTHER_NAMES, only
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.messages import read_messages
from services.gateway.schemas.openai import IGNORED, asked_constraint, check_model, stream_options
from services.gateway.schemas.reasoning import read_reasoning
from services.gateway.schemas.sampling import (
    TokenCount,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from services.gateway.schemas.template_fields import template_options
from services.gateway.schemas.tools import ToolFields, read_tools
from shared.namespaces import namespace

BODY_RULES = FieldRules(
    IGNORED,
    {
        "audio": (),
        "best_of": (1,),
        "chat_template": (),
        "documents": ([],),
        "echo": (False,),
        "function_call": ("none",),
        "functions": ([],),
        "modalities": (["text"],),
        "reasoning_effort": (),
        "verbosity": (),
        "web_search_options": (),
    },
    OTHER_NAMES | {"function_call": "tool_choice", "functions": "tools"},
)


class ChatFields(ToolFields, frozen=True, kw_only=True):
    messages: list[Any]
    max_completion_tokens: TokenCount | None = None  # wins over max_tokens, its older name
    logprobs: bool = False
    top_logprobs: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None  # further variables of the model's template
    add_generation_prompt: bool | None = None  # by default yes, unless the final message is continued
    continue_final_message: bool = False
    separate_reasoning: bool = True  # a thinking model's thoughts in reasoning_content


def read_chat(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), ChatFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    options = stream_options(fields)
    check_choices(1, fields.n, "n", terms.limits)
    tools = read_tools(fields, terms.limits.constraints, terms.tool_format)
    asked = only(tools.asked, asked_constraint(fields, terms.limits))
    request = GenerateRequest(
        messages=read_messages(fields.messages, terms.limits),
        tools=tools.shown,
        template_options=template_options(fields, terms.limits.constraints),
        sampling=to_sampling(
            fields,
            terms,
            seed=fields.seed,
            min_new_tokens=fields.min_tokens,
            logprobs=fields.logprobs,
            top_logprobs=_top_logprobs(fields, terms),
        ),
        text=to_text_options(fields, terms.limits, include_stop=fields.include_stop_str_in_output),
        max_new_tokens=_max_new_tokens(fields),
        constraint=asked.constraint,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
        timeout_s=fields.timeout,
    )
    check_range(fields.min_tokens, request.max_new_tokens, "min_tokens")
    reply = partial(
        ChatReply,
        options=options,
        has_logprobs=fields.logprobs,
        samples=fields.n,
        tools=tools.format,
        reasoning=read_reasoning(terms.reasoning, request, tools) if fields.separate_reasoning else None,
    )
    part = Part(request, {"prompt": "messages", "samples": "n", **asked.names})
    return Call((part,), fields.stream, reply, fields.n)


def _max_new_tokens(fields: ChatFields) -> int | None:
    return fields.max_tokens if fields.max_completion_tokens is None else fields.max_completion_tokens


def _top_logprobs(fields: ChatFields, terms: Terms) -> int:
    if fields.top_logprobs is None:
        return 0
    if not fields.logprobs:
        raise InvalidRequest("only allowed when logprobs is true", "top_logprobs")
    return check_top_logprobs(fields.top_logprobs, "top_logprobs", terms.limits)
