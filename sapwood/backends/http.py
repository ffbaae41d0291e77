"""HTTP as all backends use it: pooled connections, retries, deadlines, and what is no answer as an error.

Knows JSON and server-sent events, no API. Connections belong to an event loop, so each loop has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import httpx
import msgspec

from sapwood.backends.answers import answer_of, error_of, event_of, request_id_of
from sapwood.backends.attempts import Attempt
from sapwood.errors import ConnectionFailed, ProgramError, ServerError, TimedOut

T = TypeVar("T")

TIMEOUT_S = 600.0  # for one answer, or between two events of a stream
CONNECT_TIMEOUT_S = 5.0
MAX_RETRIES = 4
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_CONNECTIONS = 512
KEPT_CONNECTIONS = 16  # the pool looks at each of them at every request: 64 cost more than they save

Sleep = Callable[[float], Awaitable[None]]


class Http:
    """Args:
    timeout_s: for an answer, and for each event of a stream.
    max_retries: of a request that was not served: no connection, or 429, 502, 503, 504.
    transport: instead of sockets.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_retries: int = MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if max_retries < 0:
            raise ProgramError(f"max_retries is at least 0, not {max_retries}")
        if api_key and not api_key.isascii():
            raise ProgramError("api_key: a key has no letters outside ASCII")
        url = _url(base_url)
        self.base_url = base_url.rstrip("/")
        self.shown_url = str(url.copy_with(userinfo=b""))  # in words: it may hold a password
        self._trusts_env = url.host not in LOOPBACK  # a proxy for the world outside is none for this machine
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._transport = transport
        self._sleep = sleep
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def get(self, path: str, decoder: msgspec.json.Decoder[T]) -> T:
        return answer_of(await self._served("GET", path), decoder)

    async def get_once(self, path: str, decoder: msgspec.json.Decoder[T]) -> T:
        """Where an answer that says no is one that is wanted."""
        request = self._client().build_request("GET", path)
        return answer_of(await self._answer(request, Attempt(self._timeout_s)), decoder)

    async def post(self, path: str, body: Mapping[str, Any], decoder: msgspec.json.Decoder[T]) -> T:
        return answer_of(await self._served("POST", path, _encoded(body)), decoder)

    async def events(self, path: str, body: Mapping[str, Any], decoder: msgspec.json.Decoder[T]) -> AsyncIterator[T]:
        """The events of a stream, without the [DONE] that ends it. An error among them is raised."""
        response = await self._served("POST", path, _encoded(body), stream=True)
        with _as_ours(self.shown_url):
            try:
                events = _data_of(response)
                while (data := await self._next(events)) is not None:
                    if data == "[DONE]":
                        return
                    yield event_of(data, response, decoder)
            finally:
                await response.aclose()
        raise ConnectionFailed(f"{self.shown_url}: the stream broke off", request_id=request_id_of(response))

    async def aclose(self) -> None:
        """The connections of this loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _next(self, events: AsyncIterator[str]) -> str | None:
        async with asyncio.timeout(self._timeout_s):
            return await anext(events, None)

    async def _served(
        self, method: str, path: str, content: bytes | None = None, *, stream: bool = False
    ) -> httpx.Response:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        for failed in range(self._max_retries + 1):
            request = self._client().build_request(method, path, content=content, headers=headers)
            attempt = Attempt(self._timeout_s)
            try:
                return await self._answer(request, attempt, stream=stream)
            except (ConnectionFailed, ServerError) as error:
                pause_s = attempt.pause_s(error, failed)
                if failed == self._max_retries or pause_s is None:
                    raise
                await self._sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _answer(self, request: httpx.Request, attempt: Attempt, *, stream: bool = False) -> httpx.Response:
        request.extensions["trace"] = attempt.trace
        with _as_ours(self.shown_url):
            async with attempt.deadline:
                response = await self._client().send(request, stream=stream)
                if response.is_success:
                    return response
                await response.aread()
                raise error_of(response)

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(
                base_url=self.base_url,
                trust_env=self._trusts_env,
                headers=self._headers,
                timeout=httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
                transport=self._transport,
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS),
            )
        return self._clients[loop]


async def lines_of(response: httpx.Response) -> AsyncIterator[str]:
    """By line feeds alone: httpx also ends a line at U+2028 and the like, which stand in JSON as they are."""
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")
    yield rest.decode(errors="replace")


async def _data_of(response: httpx.Response) -> AsyncIterator[str]:
    async for line in lines_of(response):
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


def _url(base_url: str) -> httpx.URL:
    try:
        return httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ProgramError(f"{base_url!r} is no URL: {error}") from error


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:  # a UnicodeEncodeError is a ValueError
        raise ProgramError(f"what is asked for does not go into JSON: {error}") from error


@contextlib.contextmanager
def _as_ours(base_url: str) -> Iterator[None]:
    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        raise TimedOut(f"{base_url}: no answer in the time allowed ({type(error).__name__})") from error
    except (httpx.HTTPError, UnicodeError) as error:  # the latter of a name that is none
        raise ConnectionFailed(f"{base_url}: {str(error) or type(error).__name__}") from error
