"""The body of OpenAI's /v1/completions, into the internal form."""

from __future__ import annotations

from functools import partial
from typing import Any

from services.gateway.errors import InvalidRequest
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.completions import CompletionReply
from services.gateway.schemas.call import Call, Terms
from services.gateway.schemas.constraint import OTHER_NAMES
from services.gateway.schemas.decode import FieldRules, convert, decode_object
from services.gateway.schemas.openai import (
    IGNORED,
    UNSUPPORTED,
    OpenAIFields,
    asked_constraint,
    check_model,
    stream_options,
)
from services.gateway.schemas.sampling import (
    check_prompt_ids,
    check_range,
    check_top_logprobs,
    to_sampling,
    to_text_options,
)
from shared.namespaces import namespace

DEFAULT_MAX_TOKENS = 16  # OpenAI's

BODY_RULES = FieldRules(IGNORED, UNSUPPORTED | {"suffix": ("",)}, OTHER_NAMES)


class CompletionFields(OpenAIFields, frozen=True, kw_only=True):
    prompt: str | list[Any]
    logprobs: int | None = None


def read_completion(body: bytes, terms: Terms) -> Call:
    """Raises ApiError for whatever cannot be served."""
    fields = convert(decode_object(body), CompletionFields, BODY_RULES)
    check_model(fields.model, terms.limits)
    options = stream_options(fields)
    prompt = _prompt(fields.prompt, terms.limits)
    top_logprobs = check_top_logprobs(fields.logprobs or 0, "logprobs", terms.limits)
    asked = asked_constraint(fields, terms.limits)
    request = GenerateRequest(
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_token_ids=prompt if isinstance(prompt, tuple) else None,
        sampling=to_sampling(
            fields,
            terms,
            seed=fields.seed,
            min_new_tokens=fields.min_tokens,
            logprobs=fields.logprobs is not None,
            top_logprobs=top_logprobs,
        ),
        text=to_text_options(fields, terms.limits, include_stop=fields.include_stop_str_in_output),
        max_new_tokens=fields.max_tokens or DEFAULT_MAX_TOKENS,
        constraint=asked.constraint,
        namespace=namespace(terms.tenant, fields.extra_key, fields.cache_salt),
        priority=fields.priority,
    )
    check_range(fields.min_tokens, request.max_new_tokens, "min_tokens")
    reply = partial(CompletionReply, options=options, has_logprobs=fields.logprobs is not None)
    return Call(request, fields.stream, reply, {"prompt": "prompt", **asked.names})


def _prompt(prompt: str | list[Any], limits: Limits) -> str | tuple[int, ...]:
    """Text or token ids; either may stand alone in a list. Booleans are no token ids."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    elif isinstance(prompt, list) and len(prompt) > 1 and isinstance(prompt[0], str | list):
        raise InvalidRequest("several prompts in one request are not supported yet", "prompt", "unsupported_parameter")
    if isinstance(prompt, str):
        return prompt
    if not all(type(token_id) is int for token_id in prompt):
        raise InvalidRequest("expected a string or an array of token ids", "prompt")
    return check_prompt_ids(prompt, "prompt", limits)
