"""A Sapwood server's /generate: requests into its words, its answers out of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import msgspec

from sapwood.backends.http import MAX_RETRIES, TIMEOUT_S, Http
from sapwood.backends.protocol import GenerateRequest, Generation, Message, Prompt, Score, TokenLogprob
from sapwood.backends.scoring import continued, own_tokens, tail_of

PATH = "/generate"
NOTHING_NEW = {"max_new_tokens": 0}

NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}


class NativeBackend:
    """Args:
    url: of the server, as "http://127.0.0.1:30000".
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
        self.http = Http(url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries, transport=transport)

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        return _generations(await self.http.post(PATH, body_of(request)))

    async def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        async for event in self.http.events(PATH, body_of(request) | {"stream": True}):
            yield _generation(event, event.get("index", 0))

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        """The prefix alone first: it is computed once, and says how long it is."""
        (prefix,) = _generations(await self.http.post(PATH, body_of(request) | {"sampling_params": NOTHING_NEW}))
        prompts = [continued(request, choice) for choice in choices]
        body = body_of(request) | _prompts_body(prompts)
        scored = await self._scored(body, max(prefix.prompt_tokens - 2, 0))
        tokens = [own_tokens(each, prefix.prompt_tokens, tail_of(request)) for each in scored]
        alone = [()] * len(choices) if not unconditional else await self._alone(tokens)
        return [
            Score(choice=choice, logprobs=_logprobs(own), unconditional=_logprobs(each))
            for choice, own, each in zip(choices, tokens, alone, strict=True)
        ]

    async def aclose(self) -> None:
        await self.http.aclose()

    async def _alone(self, tokens: Sequence[Sequence[TokenLogprob]]) -> list[tuple[TokenLogprob, ...]]:
        body = {"input_ids": [[token.token_id for token in own] for own in tokens]}
        return await self._scored(body, 0)

    async def _scored(self, body: dict[str, Any], start: int) -> list[tuple[TokenLogprob, ...]]:
        asked = {"return_logprob": True, "logprob_start_len": start, "return_text_in_logprobs": True}
        reply = await self.http.post(PATH, body | asked | {"sampling_params": NOTHING_NEW})
        return [generation.prompt_logprobs for generation in _generations(reply)]


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


def _generations(reply: Any) -> list[Generation]:
    listed = reply if isinstance(reply, list) else [reply]
    return [_generation(body, index) for index, body in enumerate(listed)]


def _generation(body: dict[str, Any], index: int) -> Generation:
    meta = body["meta_info"]
    reason = meta["finish_reason"]
    return Generation(
        text=body["text"],
        token_ids=tuple(body["output_ids"]),
        index=index,
        finish_reason=None if reason is None else reason["type"],
        prompt_tokens=meta["prompt_tokens"],
        completion_tokens=meta["completion_tokens"],
        cached_tokens=meta["cached_tokens"],
        request_id=meta["id"],
        logprobs=_triples(meta.get("output_token_logprobs")),
        prompt_logprobs=_triples(meta.get("input_token_logprobs")),
        top_logprobs=tuple(_triples(each) for each in meta.get("output_top_logprobs") or ()),
    )


def _triples(raw: Any) -> tuple[TokenLogprob, ...]:
    return msgspec.convert(raw or (), tuple[TokenLogprob, ...])


def _logprobs(tokens: Sequence[TokenLogprob]) -> tuple[float, ...]:
    """The very first token of a text has none: it counts as certain."""
    return tuple(token.logprob or 0.0 for token in tokens)
