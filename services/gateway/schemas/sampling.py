"""The sampling fields that all APIs share, their ranges, and their conversion into the wire's form.

Ranges that depend on nothing stand in the types; those that depend on the model or the configuration are in `Limits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from services.gateway.errors import ApiError, InvalidRequest
from services.gateway.limits import Limits
from services.gateway.schemas.call import Terms
from shared import wire
from shared.stop_pattern import BadPattern, read_stop_patterns

MAX_STOP_CHARACTERS = 1024  # of one stop string: so much text may be held back
MAX_STOP_TOKEN_IDS = 256
SMALLEST_TOP_P = 1e-6  # stands for 0: both leave only the most likely token

TokenCount: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SampleCount: TypeAlias = Annotated[int, Meta(ge=1, le=2**31 - 1)]
CacheKey: TypeAlias = Annotated[str, Meta(max_length=256)]
Priority: TypeAlias = Annotated[int, Meta(ge=-1000, le=1000)]  # larger runs earlier, among a tenant's own requests
Timeout: TypeAlias = Annotated[float, Meta(gt=0)]  # seconds until the request ends, whatever has come of it by then


class SamplingFields(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the bodies of all APIs."""

    temperature: Annotated[float, Meta(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Meta(ge=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1  # -1 and 0: off
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.0
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] = {}
    stop: str | list[str] = []
    stop_regex: str | list[str] = []  # the earliest end of a match ends the output
    stop_token_ids: Annotated[list[int], Meta(max_length=MAX_STOP_TOKEN_IDS)] = []
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None


def to_sampling(
    fields: SamplingFields,
    terms: Terms,
    *,
    seed: int | None,
    min_new_tokens: int,
    logprobs: bool,
    top_logprobs: int,
    prompt_logprobs_from: int | None = None,
) -> wire.Sampling:
    seed = seed if seed is not None else terms.fresh_seed()
    return wire.Sampling(
        seed=seed % 2**63,
        temperature=fields.temperature,
        top_k=fields.top_k if fields.top_k > 0 else None,
        top_p=max(fields.top_p, SMALLEST_TOP_P),
        min_p=fields.min_p,
        repetition_penalty=fields.repetition_penalty,
        presence_penalty=fields.presence_penalty,
        frequency_penalty=fields.frequency_penalty,
        logit_bias=_logit_bias(fields.logit_bias, terms.limits),
        min_new_tokens=min_new_tokens,
        stop_token_ids=check_token_ids(fields.stop_token_ids, "stop_token_ids", terms.limits),
        ignore_eos=fields.ignore_eos,
        logprobs=logprobs,
        top_logprobs=top_logprobs,
        prompt_logprobs_from=prompt_logprobs_from,
    )


def to_text_options(
    fields: SamplingFields, limits: Limits, *, include_stop: bool, param: str = "stop"
) -> wire.TextOptions:
    """Args:
    param: the client's name of the stop strings.
    """
    stop, stop_regex = _listed(fields.stop), _listed(fields.stop_regex)
    _check_count(stop, param, limits)
    _check_count(stop_regex, "stop_regex", limits)
    for text in stop:
        if not 0 < len(text) <= MAX_STOP_CHARACTERS:
            raise InvalidRequest(f"a stop string has 1 to {MAX_STOP_CHARACTERS} characters, not {len(text)}", param)
    try:
        read_stop_patterns(stop_regex)
    except BadPattern as error:
        raise InvalidRequest(str(error), "stop_regex") from None
    return wire.TextOptions(stop, fields.skip_special_tokens, include_stop, stop_regex)


def _listed(given: str | list[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_count(stops: tuple[str, ...], param: str, limits: Limits) -> None:
    if len(stops) > limits.max_stop_strings:
        raise InvalidRequest(f"at most {limits.max_stop_strings} of them, got {len(stops)}", param)


def check_range(min_tokens: int, max_tokens: int | None, param: str) -> None:
    if max_tokens is not None and min_tokens > max_tokens:
        raise InvalidRequest(f"{min_tokens} is more than the most tokens that may come, {max_tokens}", param)


def check_top_logprobs(count: int, param: str, limits: Limits) -> int:
    if not 0 <= count <= limits.max_top_logprobs:
        raise InvalidRequest(f"between 0 and {limits.max_top_logprobs}, got {count}", param)
    return count


def check_prompt_ids(token_ids: Sequence[int], param: str, limits: Limits) -> tuple[int, ...]:
    """Long before the tokenizer: a list that cannot fit is not even looked at."""
    if not token_ids:
        raise InvalidRequest("an empty prompt", param)
    if len(token_ids) >= limits.max_model_len:
        message = (
            f"{param}: the context length of this model is {limits.max_model_len} tokens, prompt and output together; "
            f"the prompt has {len(token_ids)}"
        )
        raise ApiError(wire.Error(message, "context_length_exceeded", param))
    return check_token_ids(token_ids, param, limits)


def check_token_ids(token_ids: Sequence[int], param: str, limits: Limits) -> tuple[int, ...]:
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < limits.vocab_size:
        index, wrong = next((i, t) for i, t in enumerate(token_ids) if not 0 <= t < limits.vocab_size)
        raise InvalidRequest(f"token id {wrong} at {index} is not in 0 to {limits.vocab_size - 1}", param)
    return tuple(token_ids)


def _logit_bias(biases: dict[str, float], limits: Limits) -> dict[int, float]:
    if len(biases) > limits.max_logit_bias:
        raise InvalidRequest(f"at most {limits.max_logit_bias} entries, got {len(biases)}", "logit_bias")
    return {_bias_token_id(key, limits): bias for key, bias in biases.items()}


def _bias_token_id(key: str, limits: Limits) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 20 and int(key) < limits.vocab_size):
        raise InvalidRequest(f"{key[:32]!r} is not a token id in 0 to {limits.vocab_size - 1}", "logit_bias")
    return int(key)
