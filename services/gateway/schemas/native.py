"""The body of /generate, with SGLang's names, into the internal form.

Sampling fields stand in `sampling_params` or at the top level, not in both. A prompt that is a list is as many prompts.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from services.gateway.errors import InvalidRequest, within
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.native import NativeOptions, NativeReply
from services.gateway.schemas.call import Call, Names, Part, Terms, check_choices
from services.gateway.schemas.constraint import OTHER_NAMES, ConstraintFields, asked_by_fields
from services.gateway.schemas.decode import FieldRules, convert, decode_object, field_names
from services.gateway.schemas.messages import read_messages
from services.gateway.schemas.native_lists import PROMPTS, split
from services.gateway.schemas.openai import ANY_MODEL, check_model
from services.gateway.schemas.sampling import (
    CacheKey,
    Priority,
    SampleCount,
    Timeout,
    TokenCount,
    check_prompt_ids,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from services.gateway.schemas.template_fields import template_options
from shared.namespaces import namespace

DEFAULT_MAX_NEW_TOKENS = 128

SAMPLING_RULES = FieldRules(
    ignored=frozenset({"spaces_between_special_tokens"}),  # of tokenizers that this server does not have
    unsupported={"custom_params": ()},
    instead=OTHER_NAMES,
)


class NativeSampling(ConstraintFields, frozen=True, kw_only=True):
    temperature: Annotated[float, Meta(ge=0, le=100)] = 1.0
    n: SampleCount = 1
    max_new_tokens: TokenCount = DEFAULT_MAX_NEW_TOKENS
    min_new_tokens: TokenCount = 0
    sampling_seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None  # another name of seed
    no_stop_trim: bool = False


BODY_RULES = FieldRules(
    # Sampling fields at the top level are taken out before; here they only serve to suggest the nearest name.
    ignored=field_names(NativeSampling) | {"log_metrics"},
    unsupported={
        "audio_data": (),
        "custom_logit_processor": (),
        "image_data": (),
        "input_embeds": (),
        "lora_path": (),
        "return_hidden_states": (False,),
        "session_params": (),
        "token_ids_logprob": (),
        "video_data": (),
    },
)


class NativeFields(msgspec.Struct, frozen=True, kw_only=True):
    text: str | None = None
    prompt: str | None = None
    input_ids: list[int] | None = None
    messages: list[Any] | None = None  # a conversation, as /v1/chat/completions has it; what follows goes with it
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    stream: bool = False
    rid: Annotated[str, Meta(max_length=256)] | None = None  # only echoed
    model: str = ANY_MODEL
    return_logprob: bool = False
    top_logprobs_num: int = 0
    logprob_start_len: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1  # position in the prompt; -1: not the prompt
    return_text_in_logprobs: bool = False
    extra_key: CacheKey | None = None
    cache_salt: CacheKey | None = None
    priority: Priority = 0
    timeout: Timeout | None = None  # never longer than the server's own


def read_native(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    several = split(decode_object(body), terms.limits)
    read = []
    for place, raw in enumerate(several.bodies):
        with several.naming(place):
            read.append(_read(raw, terms))
    first = read[0]
    if any(one.samples != first.samples for one in read):
        raise InvalidRequest("it must be the same for all prompts", "sampling_params.n")
    check_choices(len(read), first.samples, first.names["samples"], terms.limits)
    parts = [
        Part(one.request, {name: several.name(called, place) for name, called in one.names.items()})
        for place, one in enumerate(read)
    ]
    reply = partial(
        NativeReply,
        options=[one.options for one in read for _ in range(first.samples)],
        is_list=bool(several.listed) or first.samples > 1,
    )
    return Call(tuple(parts), first.stream, reply, first.samples)


class _Read(NamedTuple):
    """A body of one prompt."""

    request: GenerateRequest
    names: Names
    stream: bool
    samples: int
    options: NativeOptions


def _read(raw: dict[str, Any], terms: Terms) -> _Read:
    place, raw_sampling = _take_sampling(raw)
    fields = convert(raw, NativeFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    prompt_param = _prompt_param(fields)
    input_ids = _input_ids(fields, terms.limits)
    conversation = _conversation(fields, terms.limits)
    top_logprobs = check_top_logprobs(fields.top_logprobs_num, "top_logprobs_num", terms.limits)
    with within(place) if place else nullcontext():
        sampling = convert(raw_sampling, NativeSampling, SAMPLING_RULES)
        check_range(sampling.min_new_tokens, sampling.max_new_tokens, "min_new_tokens")
        asked = asked_by_fields(sampling, terms.limits.constraints, place)
        request = GenerateRequest(
            prompt=fields.text if fields.text is not None else fields.prompt,
            prompt_token_ids=input_ids,
            **conversation,
            sampling=to_sampling(
                sampling,
                terms,
                seed=sampling.sampling_seed if sampling.sampling_seed is not None else sampling.seed,
                min_new_tokens=sampling.min_new_tokens,
                logprobs=fields.return_logprob,
                top_logprobs=top_logprobs if fields.return_logprob else 0,
                prompt_logprobs_from=_scored_from(fields, sampling),
            ),
            text=to_text_options(sampling, terms.limits, include_stop=sampling.no_stop_trim),
            max_new_tokens=sampling.max_new_tokens,
            constraint=asked.constraint,
            namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
            priority=fields.priority,
            timeout_s=fields.timeout,
            client_id=fields.rid,
        )
    options = NativeOptions(fields.rid, fields.return_logprob, top_logprobs > 0, fields.return_text_in_logprobs)
    names = {"prompt": prompt_param, "samples": f"{place}.n" if place else "n", **asked.names}
    return _Read(request, names, fields.stream, sampling.n, options)


def _scored_from(fields: NativeFields, sampling: NativeSampling) -> int | None:
    """By default the prompt is scored where nothing else is."""
    if not fields.return_logprob:
        return None
    if fields.logprob_start_len < 0:
        return None if sampling.max_new_tokens else 0
    return fields.logprob_start_len


def _take_sampling(raw: dict[str, Any]) -> tuple[str, Any]:
    """The raw sampling fields, out of `raw`, and their place: empty for the top level."""
    nested = raw.pop("sampling_params", None)
    names = field_names(NativeSampling).union(
        SAMPLING_RULES.ignored, SAMPLING_RULES.unsupported, SAMPLING_RULES.instead
    )
    top_level = {name: raw.pop(name) for name in sorted(raw.keys() & names)}
    if nested is None:
        return "", top_level
    if top_level:
        raise InvalidRequest("stands beside sampling_params, where it belongs", next(iter(top_level)))
    return "sampling_params", nested


def _prompt_param(fields: NativeFields) -> str:
    given = [name for name in PROMPTS if getattr(fields, name) is not None]
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise InvalidRequest(f"exactly one of {', '.join(PROMPTS)}, got {found}", given[-1] if given else "text")
    return given[0]


def _conversation(fields: NativeFields, limits: Limits) -> dict[str, Any]:
    """Of `GenerateRequest`, if there are messages."""
    options = template_options(fields, limits.constraints)
    if fields.messages is not None:
        return {"messages": read_messages(fields.messages, limits), "template_options": options}
    if options:
        raise InvalidRequest("goes with messages", next(iter(options)))
    return {}


def _input_ids(fields: NativeFields, limits: Limits) -> tuple[int, ...] | None:
    return None if fields.input_ids is None else check_prompt_ids(fields.input_ids, "input_ids", limits)
