"""A server without the language: one request, one answer. Both clients serve as backends of programs as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

import httpx
import msgspec

from sapwood.backends.answers import ANYTHING
from sapwood.backends.http import MAX_RETRIES, TIMEOUT_S
from sapwood.backends.native import NativeBackend
from sapwood.backends.openai_replies import MODELS
from sapwood.backends.protocol import Backend, GenerateRequest, Generation, Message, Prompt
from sapwood.errors import ProgramError
from sapwood.loop import BACKGROUND
from sapwood.options import SamplingOptions, sampling_of

Asked: TypeAlias = str | Sequence[int] | Sequence[Message | Mapping[str, str]]  # text, token ids, or messages

HEALTH = msgspec.json.Decoder(dict[str, Any])


class AsyncClient:
    """Args:
    url: of a Sapwood server.
    api_key: by default the environment's SAPWOOD_API_KEY.
    timeout_s: for one answer, or between two pieces of a stream.
    max_retries: of a request that was not served; the server's Retry-After is obeyed.
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
        self._native = NativeBackend(
            url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries, transport=transport
        )

    @property
    def backend(self) -> Backend:
        return self._native

    async def generate(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> Generation:
        """Go on from text, token ids or a conversation. With `n`, the first sample: see `generate_all`."""
        return (await self.generate_all(prompt, **options))[0]

    async def generate_all(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> list[Generation]:
        """All `n` samples."""
        return await self._native.generate(request_of(prompt, options))

    async def chat(self, messages: str | Sequence[Message | Mapping[str, str]], **options: Any) -> str:
        """The answer. Text alone is one message of the user."""
        asked = [Message("user", messages)] if isinstance(messages, str) else messages
        return (await self.generate(asked, **options)).text

    async def complete(self, text: str, **options: Unpack[SamplingOptions]) -> str:
        return (await self.generate(text, **options)).text

    async def stream(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> AsyncIterator[str]:
        """The text of one sample, in pieces as it comes."""
        seen = 0
        async for generation in self._native.stream(request_of(prompt, options)):
            if len(generation.text) > seen:
                yield generation.text[seen:]
                seen = len(generation.text)

    async def abort(self, request_id: str) -> None:
        await self._native.http.post("/abort_request", {"rid": request_id}, ANYTHING)

    async def models(self) -> list[str]:
        return [model.id for model in (await self._native.http.get("/v1/models", MODELS)).data]

    async def health(self) -> dict[str, Any]:
        """Raises ServerError with what is wrong, if anything is."""
        return await self._native.http.get_once("/health", HEALTH)

    async def aclose(self) -> None:
        await self._native.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Client:
    """`AsyncClient` for code that is not async: the same methods, which wait."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_retries: int = MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = AsyncClient(
            url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries, transport=transport
        )

    @property
    def backend(self) -> Backend:
        return self._client.backend

    def generate(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> Generation:
        return BACKGROUND.result(self._client.generate(prompt, **options))

    def generate_all(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> list[Generation]:
        return BACKGROUND.result(self._client.generate_all(prompt, **options))

    def chat(self, messages: str | Sequence[Message | Mapping[str, str]], **options: Any) -> str:
        return BACKGROUND.result(self._client.chat(messages, **options))

    def complete(self, text: str, **options: Unpack[SamplingOptions]) -> str:
        return BACKGROUND.result(self._client.complete(text, **options))

    def stream(self, prompt: Asked, **options: Unpack[SamplingOptions]) -> Iterator[str]:
        pieces = self._client.stream(prompt, **options)
        try:
            while (piece := BACKGROUND.result(_next(pieces))) is not None:
                yield piece
        finally:
            BACKGROUND.result(_close(pieces))

    def abort(self, request_id: str) -> None:
        BACKGROUND.result(self._client.abort(request_id))

    def models(self) -> list[str]:
        return BACKGROUND.result(self._client.models())

    def health(self) -> dict[str, Any]:
        return BACKGROUND.result(self._client.health())

    def close(self) -> None:
        BACKGROUND.result(self._client.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def request_of(prompt: Asked, options: SamplingOptions) -> GenerateRequest:
    return GenerateRequest(prompt=_prompt_of(prompt), sampling=sampling_of(options))


def _prompt_of(prompt: Asked) -> Prompt:
    """Raises ProgramError for what is neither text nor token ids nor messages."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, bytes | bytearray):
        raise ProgramError("a prompt is text, and bytes are none yet: decode them")
    try:
        parts = [dict(each) if isinstance(each, Mapping) else each for each in prompt]
        of: Any = tuple[int, ...] if parts and isinstance(parts[0], int) else tuple[Message, ...]
        found: Prompt = msgspec.convert(parts, of)
    except (TypeError, msgspec.ValidationError) as error:
        raise ProgramError(f"a prompt is text, token ids or messages: {error}") from error
    return found


async def _next(pieces: AsyncIterator[str]) -> str | None:
    return await anext(pieces, None)


async def _close(pieces: AsyncIterator[str]) -> None:
    await asyncio.shield(pieces.aclose())  # type: ignore[attr-defined]
