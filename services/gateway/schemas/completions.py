"""The body of OpenAI's /v1/completions, into the internal form."""

from __future__ import annotations

from functools import partial
from typing import Any

from services.gateway.errors import InvalidRequest
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.completions import CompletionReply
from services.gateway.schemas.call import Call, Part, Terms, check_choices
from services.gateway.schemas.constraint import OTHER_NAMES, Asked
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.openai import (
    IGNORED,
    OpenAIFields,
    asked_constraint,
    check_model,
    stream_options,
)
from services.gateway.schemas.sampling import (
    SampleCount,
    check_prompt_ids,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from shared.namespaces import namespace

DEFAULT_MAX_TOKENS = 16  # OpenAI's

BODY_RULES = FieldRules(IGNORED, {"suffix": ("",)}, OTHER_NAMES)


class CompletionFields(OpenAIFields, frozen=True, kw_only=True):
    prompt: str | list[Any]  # text or token ids, or several of either
    logprobs: int | None = None
    echo: bool = False
    best_of: SampleCount | None = None  # drawn in all; the likeliest n of them are answered


def read_completion(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), CompletionFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    options = stream_options(fields)
    samples = _samples(fields)
    prompts = _prompts(fields.prompt, samples, terms.limits)
    check_top_logprobs(fields.logprobs or 0, "logprobs", terms.limits)
    asked = asked_constraint(fields, terms.limits)
    several = "n" if fields.best_of is None else "best_of"
    parts = tuple(
        Part(_request(fields, terms, prompt, asked), {"prompt": param, "samples": several, **asked.names})
        for param, prompt in prompts.items()
    )
    reply = partial(
        CompletionReply,
        options=options,
        has_logprobs=fields.logprobs is not None,
        keep=fields.n,
        samples=samples,
    )
    return Call(parts, fields.stream, reply, samples, fields.echo)


def _request(fields: CompletionFields, terms: Terms, prompt: str | tuple[int, ...], asked: Asked) -> GenerateRequest:
    max_new_tokens = fields.max_tokens if fields.max_tokens is not None else DEFAULT_MAX_TOKENS
    check_range(fields.min_tokens, max_new_tokens, "min_tokens")
    has_logprobs = fields.logprobs is not None
    return GenerateRequest(
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_token_ids=prompt if isinstance(prompt, tuple) else None,
        sampling=to_sampling(
            fields,
            terms,
            seed=fields.seed,
            min_new_tokens=fields.min_tokens,
            logprobs=has_logprobs or (fields.best_of or 1) > fields.n,  # the likeliest are found by them
            top_logprobs=fields.logprobs or 0,
            prompt_logprobs_from=0 if has_logprobs and fields.echo else None,
        ),
        text=to_text_options(fields, terms.limits, include_stop=fields.include_stop_str_in_output),
        max_new_tokens=max_new_tokens,
        constraint=asked.constraint,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
        timeout_s=fields.timeout,
    )


def _samples(fields: CompletionFields) -> int:
    if fields.best_of is None:
        return fields.n
    if fields.best_of < fields.n:
        raise InvalidRequest(f"at least n, which is {fields.n}", "best_of")
    if fields.stream and fields.best_of > fields.n:
        raise InvalidRequest("the best are known at the end only, so not with stream", "best_of")
    return fields.best_of


def _prompts(given: str | list[Any], samples: int, limits: Limits) -> dict[str, str | tuple[int, ...]]:
    """Each by what the client calls it."""
    if isinstance(given, list) and given and isinstance(given[0], str | list):
        check_choices(len(given), samples, "prompt", limits)
        return {f"prompt.{place}": _prompt(each, f"prompt.{place}", limits) for place, each in enumerate(given)}
    check_choices(1, samples, "n", limits)
    return {"prompt": _prompt(given, "prompt", limits)}


def _prompt(prompt: Any, param: str, limits: Limits) -> str | tuple[int, ...]:
    """Booleans are no token ids."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not all(type(token_id) is int for token_id in prompt):
        raise InvalidRequest("expected a string or an array of token ids", param)
    return check_prompt_ids(prompt, param, limits)
