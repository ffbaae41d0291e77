"""HTTP as all backends use it: pooled connections, retries, deadlines, and what is no answer as an error.

Knows JSON and server-sent events, no API. Connections belong to an event loop, so each loop has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import httpx
import msgspec

from sapwood.errors import BackendError, ConnectionFailed, Overloaded, ServerError, TimedOut

TIMEOUT_S = 600.0  # for one answer, or between two events of a stream
CONNECT_TIMEOUT_S = 5.0
MAX_RETRIES = 4
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
LONGEST_WAIT_S = 60.0  # of a server that says when to come back; longer is for the caller to decide
JITTER_S = 0.5  # so that those who were refused together do not come back together
UNSERVED = (httpx.ConnectError, httpx.RemoteProtocolError)  # the latter: a connection that was kept had been closed
MAX_CONNECTIONS = 512
KEPT_CONNECTIONS = 64

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
        self.base_url = base_url.rstrip("/")
        url = httpx.URL(self.base_url)
        self._shown_url = str(url.copy_with(userinfo=b""))  # in words: it may hold a password
        self._trusts_env = url.host not in LOOPBACK  # a proxy for the world outside is none for this machine
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
        self._max_retries = max_retries
        self._transport = transport
        self._sleep = sleep
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def get(self, path: str) -> Any:
        return _decoded(await self._served(lambda client: client.build_request("GET", path)))

    async def get_once(self, path: str) -> Any:
        """Where an answer that says no is one that is wanted."""
        return _decoded(await self._answer(self._client().build_request("GET", path)))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return _decoded(await self._served(lambda client: _post(client, path, body)))

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Any]:
        """The events of a stream, without the [DONE] that ends it. An error among them is raised."""
        response = await self._served(lambda client: _post(client, path, body), stream=True)
        with _as_ours(self._shown_url):
            try:
                async for line in lines_of(response):
                    if line == "data: [DONE]":
                        return
                    if line.startswith("data:"):
                        yield _event(line.removeprefix("data:"), response)
            finally:
                await response.aclose()
        raise ConnectionFailed(f"{self._shown_url}: the stream broke off", request_id=_request_id(response))

    async def aclose(self) -> None:
        """The connections of this loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _served(
        self, request: Callable[[httpx.AsyncClient], httpx.Request], *, stream: bool = False
    ) -> httpx.Response:
        client = self._client()
        for attempt in range(self._max_retries + 1):
            try:
                return await self._answer(request(client), stream=stream)
            except (ConnectionFailed, ServerError) as error:
                pause_s = _pause_s(error, attempt)
                if attempt == self._max_retries or pause_s is None:
                    raise
                await self._sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _answer(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        with _as_ours(self._shown_url):
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
                timeout=self._timeout,
                transport=self._transport,
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS),
            )
        return self._clients[loop]


def error_of(response: httpx.Response) -> ServerError:
    """Of an answer that is none, in OpenAI's form or any."""
    message, code, param = response.text[:500] or response.reason_phrase, None, None
    with contextlib.suppress(msgspec.DecodeError):
        body = msgspec.json.decode(response.content)
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            message, code, param = _words(body["error"])
    return _server_error(message, code, param, response)


def _server_error(message: str, code: str | None, param: str | None, response: httpx.Response) -> ServerError:
    request_id = _request_id(response)
    if response.status_code in (429, 503):
        pause = response.headers.get("retry-after", "")
        retry_after_s = float(pause) if pause.isdecimal() else None
        return Overloaded(message, status=response.status_code, retry_after_s=retry_after_s, request_id=request_id)
    return ServerError(message, status=response.status_code, code=code, param=param, request_id=request_id)


def _words(error: dict[str, Any]) -> tuple[str, str | None, str | None]:
    code = error.get("code")
    return str(error.get("message", "")), None if code is None else str(code), error.get("param")


def _event(data: str, response: httpx.Response) -> Any:
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise BackendError(f"an event that is no JSON: {data[:100]}", request_id=_request_id(response)) from error
    if isinstance(event, dict) and isinstance(event.get("error"), dict):
        message, code, param = _words(event["error"])
        raise ServerError(message, status=500, code=code, param=param, request_id=_request_id(response))
    return event


def _decoded(response: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(response.content) if response.content else None
    except msgspec.DecodeError as error:
        raise BackendError(f"an answer that is no JSON: {response.text[:100]}") from error


def _post(client: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> httpx.Request:
    content = msgspec.json.encode(body)
    return client.build_request("POST", path, content=content, headers={"Content-Type": "application/json"})


def _request_id(response: httpx.Response) -> str | None:
    request_id: str | None = response.headers.get("x-request-id")
    return request_id


@contextlib.contextmanager
def _as_ours(base_url: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut(f"{base_url}: {type(error).__name__}") from error
    except httpx.HTTPError as error:
        raise ConnectionFailed(f"{base_url}: {str(error) or type(error).__name__}") from error


def _pause_s(error: BackendError, attempt: int) -> float | None:
    """None: the same request would fail again, or may have been served, or not for a long time."""
    if isinstance(error, ConnectionFailed) and not isinstance(error.__cause__, UNSERVED):
        return None
    if isinstance(error, Overloaded) and error.retry_after_s is not None:
        return error.retry_after_s + random.uniform(0, JITTER_S) if error.retry_after_s <= LONGEST_WAIT_S else None
    if isinstance(error, ServerError) and error.status not in (429, 502, 503, 504):
        return None
    return float(min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S) * random.uniform(0.5, 1))


async def lines_of(response: httpx.Response) -> AsyncIterator[str]:
    """By line feeds alone: httpx also ends a line at U+2028 and the like, which stand in JSON as they are."""
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode(errors="replace")
    yield rest.decode(errors="replace")
