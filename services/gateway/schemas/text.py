"""The bodies of /tokenize and /detokenize, into the questions that a tokenizer is asked.

vLLM's fields, and SGLang's lists: of prompts, and of lists of ids. Then the reply's parts are lists too.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

import msgspec

from services.gateway.errors import ApiError, InvalidRequest
from services.gateway.limits import Limits
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.messages import read_messages
from services.gateway.schemas.openai import ANY_MODEL, check_model
from services.gateway.schemas.sampling import check_token_ids
from services.gateway.schemas.template_fields import template_options
from services.gateway.schemas.tools import ToolFields, read_tools
from shared import wire
from shared.tool_format import ToolFormat

MAX_TEXTS = 1024  # in one request
MAX_CHARACTERS = 1024 * 1024  # of a list's texts in all, or as many as the model can hold
CHARACTERS_OF_AN_ID = 8  # at most, of ordinary text
MAX_IDS = MAX_CHARACTERS // CHARACTERS_OF_AN_ID  # of a list's lists in all
CALL_ID = ""  # is given when a question is asked

TOKENIZE_RULES = FieldRules(unsupported={"chat_template": (), "mm_processor_kwargs": ({},)})


class TokenizeFields(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of prompt and messages is given. What stands behind them goes with messages alone."""

    model: str = ANY_MODEL
    prompt: str | list[str] | None = None
    messages: list[Any] | None = None
    add_special_tokens: bool | None = None  # of a prompt, by default yes; templates write their own
    return_token_strs: bool = False
    tools: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False


class DetokenizeFields(msgspec.Struct, frozen=True, kw_only=True):
    tokens: list[int | list[int]]
    model: str = ANY_MODEL
    skip_special_tokens: bool = False


@dataclass(frozen=True)
class Texts:
    questions: list[wire.Text]
    is_list: bool  # the client sent a list of them


def read_tokenize(body: bytes, limits: Limits, style: ToolFormat) -> Texts:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), TokenizeFields, TOKENIZE_RULES)
    check_model(fields.model, limits)
    if (fields.prompt is None) == (fields.messages is None):
        raise InvalidRequest("exactly one of prompt and messages", "prompt")
    if fields.messages is not None:
        return Texts([_conversation(fields, fields.messages, limits, style)], is_list=False)
    _refuse_template_fields(fields)
    if isinstance(fields.prompt, str):
        return Texts([_plain(fields.prompt, fields)], is_list=False)
    prompts = fields.prompt or []
    _check_list(prompts, "prompt", max(MAX_CHARACTERS, limits.max_model_len * CHARACTERS_OF_AN_ID), "characters")
    return Texts([_plain(prompt, fields) for prompt in prompts], is_list=True)


def read_detokenize(body: bytes, limits: Limits) -> Texts:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), DetokenizeFields)
    check_model(fields.model, limits)
    if not any(isinstance(part, list) for part in fields.tokens):
        return Texts([_ids(fields.tokens, fields, limits)], is_list=False)
    lists = [part for part in fields.tokens if isinstance(part, list)]
    if len(lists) < len(fields.tokens):
        raise InvalidRequest("expected token ids, or lists of token ids", "tokens")
    _check_list(lists, "tokens", max(MAX_IDS, limits.max_model_len), "ids")
    return Texts([_ids(ids, fields, limits) for ids in lists], is_list=True)


def _plain(prompt: str, fields: TokenizeFields) -> wire.Text:
    return wire.Text(
        CALL_ID,
        "tokenize",
        prompt=prompt,
        add_special_tokens=fields.add_special_tokens is not False,
        with_tokens=fields.return_token_strs,
    )


def _conversation(fields: TokenizeFields, messages: list[Any], limits: Limits, style: ToolFormat) -> wire.Text:
    if fields.add_special_tokens:
        raise InvalidRequest("a template writes its own special tokens", "add_special_tokens")
    tools = read_tools(ToolFields(tools=fields.tools), limits.constraints, style)
    return wire.Text(
        CALL_ID,
        "tokenize",
        messages=read_messages(messages, limits),
        tools=tools.shown,
        template_options=template_options(fields, limits.constraints),
        with_tokens=fields.return_token_strs,
    )


def _refuse_template_fields(fields: TokenizeFields) -> None:
    """`add_generation_prompt` aside: some clients always send it."""
    for name in ("tools", "chat_template_kwargs", "continue_final_message"):
        if getattr(fields, name):
            raise InvalidRequest("goes with messages", name)


def _ids(part: list[Any], fields: DetokenizeFields, limits: Limits) -> wire.Text:
    if len(part) > limits.max_model_len:
        message = f"tokens: the context length of this model is {limits.max_model_len} tokens, got {len(part)}"
        raise ApiError(wire.Error(message, "context_length_exceeded", "tokens"))
    ids = check_token_ids(part, "tokens", limits)
    return wire.Text(CALL_ID, "detokenize", token_ids=ids, skip_special_tokens=fields.skip_special_tokens)


def _check_list(parts: Sequence[Sized], param: str, most: int, unit: str) -> None:
    if len(parts) > MAX_TEXTS:
        raise InvalidRequest(f"at most {MAX_TEXTS} at once, got {len(parts)}", param)
    size = sum(map(len, parts))
    if size > most:
        raise InvalidRequest(f"at most {most} {unit} at once, got {size}", param)
