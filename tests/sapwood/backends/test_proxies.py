"""The environment's proxies are for the world outside."""

import asyncio

import pytest

from sapwood import Client
from tests.support.outside_api import answer, outside_api


@pytest.fixture
def proxy(monkeypatch):
    """One that nobody reaches."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


async def health(url):
    with Client(url, max_retries=0) as client:
        return await asyncio.to_thread(client.health)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_on_this_machine_is_reached_without_them(proxy, host):
    async with outside_api(health=answer(b'{"status": "healthy"}')) as server:
        assert await health(server.url("", host)) == {"status": "healthy"}


async def test_another_one_is_reached_through_them(proxy, monkeypatch):
    """The proxy is asked for a name that nothing here could find."""
    async with outside_api() as server:
        server.answers["http://server.invalid/health"] = answer(b'{"status": "healthy"}')
        monkeypatch.setenv("ALL_PROXY", server.url(""))
        monkeypatch.setenv("HTTP_PROXY", server.url(""))
        monkeypatch.setenv("http_proxy", server.url(""))
        assert await health("http://server.invalid") == {"status": "healthy"}
    assert server.requests[0].startswith(b"GET http://server.invalid/health ")
