"""Calls an outside API: one request to one address, whose answer is JSON. Knows sockets and limits, no program.

The host's name is resolved once. All its addresses are judged, and the connection goes to one of those that were: what
the name means a moment later changes nothing. Nothing of the environment (proxies, .netrc) is used.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import httpx
import msgspec

from sapwood.api_calls.hosts import ApiHosts, Target, parse_address
from sapwood.errors import CallFailed, CallRefused, ProgramError

Method = Literal["GET", "POST"]
Resolver = Callable[[str, int], Awaitable[list[str]]]

TIMEOUT_S = 10.0
MAX_BYTES = 1_000_000


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, the one to try first in front."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def fetch(
    url: str,
    params: Mapping[str, object] | None,
    hosts: ApiHosts,
    *,
    method: Method = "GET",
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_BYTES,
    resolver: Resolver = resolve,
) -> Any:
    """The JSON value that the API answers.

    Args:
        params: of the query, or with POST the body, as JSON.
        timeout_s: for all of it, from the name's resolution to the last byte.
        max_bytes: of the answer.

    Raises:
        CallRefused: the address is none that may be called, or redirects.
        CallFailed: it gives no JSON within the limits.
        ProgramError: the parameters cannot be sent.
    """
    target = hosts.target(url)
    try:
        async with asyncio.timeout(timeout_s):
            requests = [_request(target, address, method, params) for address in await _addresses(target, resolver)]
            body = await _first_reached(requests, target, max_bytes)
    except TimeoutError as error:
        raise CallFailed(f"{_name(target)}: no complete answer within {timeout_s:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CallFailed(f"{_name(target)}: {str(error) or type(error).__name__}") from error
    return _read(body, target)


async def _addresses(target: Target, resolver: Resolver) -> list[str]:
    """At least one. Raises CallRefused if any of them is none to call."""
    host = target.entry.host
    try:
        addresses = [host] if parse_address(host) else await resolver(host, target.port)
    except (OSError, UnicodeError) as error:  # the latter: no name that can be asked for
        raise CallFailed(f"{host}: {getattr(error, 'strerror', None) or error}") from error
    if not addresses:
        raise CallFailed(f"{host} has no address")
    for text in addresses:
        address = parse_address(text)
        if address is None or not target.entry.permits(address):
            raise CallRefused(f"{host} is at {text}, which is not public")
    return list(dict.fromkeys(addresses))


def _request(target: Target, address: str, method: Method, params: Mapping[str, object] | None) -> httpx.Request:
    """To the address, in the name of the host: in the Host header, and in what the certificate is checked against."""
    url, content = target.url.copy_with(host=address, fragment=None), None
    headers = {
        "Host": target.url.netloc.decode(),
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # so that the limit of size is one of memory
    }
    try:
        if method == "POST":
            content, headers["Content-Type"] = msgspec.json.encode(params or {}), "application/json"
        else:
            url = url.copy_merge_params(_query(params or {}))
    except (TypeError, ValueError, RecursionError) as error:  # a UnicodeEncodeError is a ValueError
        raise ProgramError(f"params of a call to {_name(target)}: {error}") from error
    extensions = {"sni_hostname": target.entry.host}
    return httpx.Request(method, url, content=content, headers=headers, extensions=extensions)


def _query(params: Mapping[str, object]) -> dict[str, str]:
    """What is a text in JSON, as a date is, goes without its quotes."""
    plain = {name: msgspec.to_builtins(value) for name, value in params.items() if value is not None}
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in plain.items()
    }


async def _first_reached(requests: Sequence[httpx.Request], target: Target, max_bytes: int) -> bytes:
    """Of several addresses, those behind the first are for when nobody listens there."""
    for request in requests[:-1]:
        try:
            return await _exchange(request, target, max_bytes)
        except httpx.ConnectError:
            continue
    return await _exchange(requests[-1], target, max_bytes)


async def _exchange(request: httpx.Request, target: Target, max_bytes: int) -> bytes:
    async with httpx.AsyncClient(verify=_certificates(), trust_env=False, timeout=None) as client:
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            _check_head(response, target)
            return await _body(response, target, max_bytes)
        finally:
            await response.aclose()


def _check_head(response: httpx.Response, target: Target) -> None:
    if response.has_redirect_location:
        raise CallRefused(f"{_name(target)} redirects, which is not followed")
    if not response.is_success:
        raise CallFailed(f"{_name(target)} answers HTTP {response.status_code}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise CallFailed(f"{_name(target)} answers compressed, which was not asked for")


async def _body(response: httpx.Response, target: Target, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            raise CallFailed(f"{_name(target)}: the answer is larger than {max_bytes} bytes")
    return bytes(body)


def _read(body: bytes, target: Target) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed(f"{_name(target)}: the answer is not JSON: {error}") from error


def _name(target: Target) -> str:
    """Without the path and the query, which may hold what is nobody's business."""
    return f"{target.entry.host}:{target.port}"


@functools.cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
