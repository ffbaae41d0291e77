"""A Sapwood server's /generate: requests into its words, its answers out of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import msgspec

from sapwood.backends.http import MAX_RETRIES, TIMEOUT_S, Http
from sapwood.backends.native_replies import EVENT, REPLIES, Tokens, generation_of, generations_of
from sapwood.backends.protocol import GenerateRequest, Generation, Message, Prompt, Score
from sapwood.backends.scoring import AT_ONCE, common, continued, own_tokens

PATH = "/generate"
NOTHING_NEW = {"max_new_tokens": 0}
END_TOKENS = 8  # of a prompt, among which a choice mostly begins

NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}


class NativeBackend:
    """Args:
    url: of the server, as "http://127.0.0.1:30000".
    api_key: by default the environment's SAPWOOD_API_KEY.
    timeout_s: for one answer, or between two events of a stream.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_retries: int = MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        key = api_key or os.environ.get("SAPWOOD_API_KEY")
        self.http = Http(url, api_key=key, timeout_s=timeout_s, max_retries=max_retries, transport=transport)

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        return generations_of(await self.http.post(PATH, body_of(request), REPLIES), request.sampling.n)

    async def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        async for reply in self.http.events(PATH, body_of(request) | {"stream": True}, EVENT):
            yield generation_of(reply, reply.index)

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        """The prefix alone first: it is computed once, and says how long it is."""
        prompts = [continued(request, choice) for choice in choices]
        reply = await self.http.post(PATH, body_of(request) | {"sampling_params": NOTHING_NEW}, REPLIES)
        (prefix,) = generations_of(reply, 1)
        tokens = await self._own(request, prompts, max(prefix.prompt_tokens - END_TOKENS, 0))
        alone = await self._alone(request, tokens) if unconditional else [()] * len(choices)
        return [
            Score(choice=choice, logprobs=_logprobs(own), unconditional=_logprobs(each))
            for choice, own, each in zip(choices, tokens, alone, strict=True)
        ]

    async def aclose(self) -> None:
        await self.http.aclose()

    async def _own(self, request: GenerateRequest, prompts: Sequence[GenerateRequest], start: int) -> list[Tokens]:
        """The tokens that the prompts have beyond the request's."""
        (end,) = await self._scored([request], start)
        scored = await self._scored(prompts, start)
        if start and not all(common(each, end) for each in scored):  # a choice changes tokens from before the start
            return await self._own(request, prompts, 0)
        return [own_tokens(each, end) for each in scored]

    async def _alone(self, request: GenerateRequest, tokens: Sequence[Tokens]) -> list[Tokens]:
        ids = [tuple(token.token_id for token in own if token.token_id is not None) for own in tokens]
        return await self._scored([msgspec.structs.replace(request, prompt=each, continues=False) for each in ids], 0)

    async def _scored(self, requests: Sequence[GenerateRequest], start: int) -> list[Tokens]:
        """Of requests that differ in their prompts alone, the prompts' tokens from there on."""
        asked = {"return_logprob": True, "logprob_start_len": start, "return_text_in_logprobs": True}
        scored: list[Tokens] = []
        for first in range(0, len(requests), AT_ONCE):
            some = requests[first : first + AT_ONCE]
            body = body_of(some[0]) | _prompts_body(some) | asked | {"sampling_params": NOTHING_NEW}
            replies = await self.http.post(PATH, body, REPLIES)
            scored += [generation.prompt_logprobs for generation in generations_of(replies, len(some))]
        return scored


def body_of(request: GenerateRequest) -> dict[str, Any]:
    sampling = msgspec.to_builtins(request.sampling)
    body: dict[str, Any] = {
        **_prompt_body(request.prompt, continues=request.continues),
        "sampling_params": {NAMES.get(name, name): value for name, value in sampling.items()},
    }
    if request.logprobs:
        body |= {
            "return_logprob": True,
            "top_logprobs_num": request.top_logprobs,
            "return_text_in_logprobs": True,
            "logprob_start_len": -1 if request.prompt_logprobs_from is None else request.prompt_logprobs_from,
        }
    others = {
        "chat_template_kwargs": request.chat_template_kwargs,
        "cache_salt": request.cache_salt,
        "extra_key": request.extra_key,
        "priority": request.priority or None,
        "rid": request.request_id,
    }
    return body | {name: value for name, value in others.items() if value is not None}


def _prompt_body(prompt: Prompt, *, continues: bool) -> dict[str, Any]:
    if isinstance(prompt, str):
        return {"text": prompt}
    if prompt and isinstance(prompt[0], Message):
        messages = {"messages": msgspec.to_builtins(prompt)}
        return messages | {"continue_final_message": True} if continues else messages
    return {"input_ids": prompt}


def _prompts_body(requests: Sequence[GenerateRequest]) -> dict[str, Any]:
    """Of several requests that differ in their prompts alone."""
    bodies = [_prompt_body(request.prompt, continues=request.continues) for request in requests]
    lists = {name: [body[name] for body in bodies] for name in ("text", "messages", "input_ids") if name in bodies[0]}
    return bodies[0] | lists


def _logprobs(tokens: Tokens) -> tuple[float, ...]:
    """The very first token of a text has none: it counts as certain."""
    return tuple(token.logprob or 0.0 for token in tokens)
