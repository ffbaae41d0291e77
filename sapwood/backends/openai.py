"""Any endpoint that speaks OpenAI's completions and chat completions, as a backend.

What OpenAI's API has no field for is sent only to an endpoint that says it is a Sapwood server, and refused elsewhere.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx
import msgspec

from sapwood.backends.http import MAX_RETRIES, TIMEOUT_S, Http
from sapwood.backends.openai_replies import ANSWER, ECHO, MODELS, Model, generations_of, scores_of
from sapwood.backends.protocol import GenerateRequest, Generation, Sampling, Score
from sapwood.backends.scoring import AT_ONCE
from sapwood.errors import BackendError, ProgramError, ServerError

OPENAI_URL = "https://api.openai.com/v1"
NOT_FOUND = 404
OUR_NAME = "sapwood"  # owns the models of our servers
DEFAULT_MAX_TOKENS = 128  # OpenAI's own for text is 16

PLAIN_FIELDS = frozenset(
    {
        "max_tokens",
        "n",
        "stop",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
        "json_schema",
    }
)


class Endpoint(NamedTuple):
    model: str
    is_ours: bool


class OpenAI:
    """Args:
    model: by default the first that the endpoint lists.
    base_url: with its "/v1".
    api_key: by default the environment's OPENAI_API_KEY.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_retries: int = MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        key = api_key or os.environ.get("OPENAI_API_KEY")
        self.http = Http(base_url, api_key=key, timeout_s=timeout_s, max_retries=max_retries, transport=transport)
        self._model = model
        self._endpoint: Endpoint | None = None

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        path, body = _asked(request, await self._found())
        return generations_of(await self.http.post(path, body, ANSWER), request.sampling.n)

    async def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        path, body = _asked(request, await self._found())
        texts: defaultdict[int, str] = defaultdict(str)
        async for event in self.http.events(path, body | {"stream": True}, ANSWER):
            for choice in event.choices:
                texts[choice.index] += choice.written
                yield Generation(
                    text=texts[choice.index],
                    index=choice.index,
                    finish_reason=choice.finish_reason,
                    request_id=event.id,
                )

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        """Of a text: what the endpoint echoes is scored."""
        prompt = request.prompt
        if not isinstance(prompt, str):
            raise ProgramError("select in a chat: OpenAI's API scores no messages; use a Sapwood server's own URL")
        if unconditional:
            raise ProgramError(
                "unconditional likelihood: OpenAI's API scores no tokens; use a Sapwood server's own URL"
            )
        endpoint = await self._found()
        asked = {"model": endpoint.model, "echo": True, "logprobs": 1, "max_tokens": 0 if endpoint.is_ours else 1}
        scores: list[Score] = []
        for first in range(0, len(choices), AT_ONCE):
            some = choices[first : first + AT_ONCE]
            prompts = {"prompt": [prompt + choice for choice in some]}
            scores += scores_of(await self.http.post("/completions", asked | prompts, ECHO), prompt, some)
        return scores

    async def aclose(self) -> None:
        await self.http.aclose()

    async def _found(self) -> Endpoint:
        if self._endpoint is None:
            named = [model for model in await self._models() if self._model in (None, model.id)]
            if self._model is None and not named:
                raise BackendError(f"{self.http.shown_url} lists no models: name one")
            is_ours = any(model.owned_by == OUR_NAME for model in named)
            self._endpoint = Endpoint(self._model or named[0].id, is_ours)
        return self._endpoint

    async def _models(self) -> list[Model]:
        """An endpoint need not list them for a model that is named."""
        try:
            return (await self.http.get("/models", MODELS)).data
        except ServerError as error:
            if self._model is None or error.status != NOT_FOUND:
                raise
            return []


def _asked(request: GenerateRequest, endpoint: Endpoint) -> tuple[str, dict[str, Any]]:
    """The path and the body. Raises ProgramError for what the endpoint has not."""
    fields = {"max_tokens": DEFAULT_MAX_TOKENS, **msgspec.to_builtins(request.sampling)}
    if not endpoint.is_ours:
        _check_plain(request, request.sampling)
    if schema := fields.pop("json_schema", None):
        form = {"name": "output", "schema": msgspec.json.decode(schema), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    body = {"model": endpoint.model, **fields, **_ours(request)}
    if isinstance(request.prompt, str) or (request.prompt and isinstance(request.prompt[0], int)):
        logprobs = {"logprobs": request.top_logprobs} if request.logprobs else {}
        return "/completions", body | {"prompt": request.prompt} | logprobs
    logprobs = {"logprobs": True, "top_logprobs": request.top_logprobs} if request.logprobs else {}
    return "/chat/completions", body | {"messages": msgspec.to_builtins(request.prompt)} | logprobs


def _check_plain(request: GenerateRequest, sampling: Sampling) -> None:
    unknown = [name for name in msgspec.to_builtins(sampling) if name not in PLAIN_FIELDS]
    unknown += _ours(request)
    if unknown:
        raise ProgramError(f"OpenAI's API has no {', '.join(unknown)}; a Sapwood server has")


def _ours(request: GenerateRequest) -> dict[str, Any]:
    fields: Mapping[str, Any] = {
        "continue_final_message": request.continues or None,
        "chat_template_kwargs": request.chat_template_kwargs,
        "cache_salt": request.cache_salt,
        "extra_key": request.extra_key,
        "priority": request.priority or None,
    }
    return {name: value for name, value in fields.items() if value is not None}
