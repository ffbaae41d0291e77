"""Over TLS: the connection goes to the address that was judged, and the certificate must be the host's.

`certificates/` has an authority, made for these tests, and what it has signed for inside.example.com, with its key.
Both end in 2126.
"""

import asyncio
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sapwood.api_calls import fetch as fetching
from sapwood.api_calls.fetch import fetch
from sapwood.api_calls.hosts import ApiHosts
from sapwood.errors import CallFailed
from tests.support.outside_api import OutsideApi, answer

CERTIFICATES = Path(__file__).with_name("certificates")
HOST = "inside.example.com"


@asynccontextmanager
async def served_over_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{HOST}.pem")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    asked: list[str | None] = []
    api = OutsideApi({"/": answer(b"1")})
    async with await asyncio.start_server(api.serve, "127.0.0.1", 0, ssl=context) as server:
        api.port = server.sockets[0].getsockname()[1]
        yield api, asked


async def called(api, host):
    async def resolver(_host, _port):
        return ["127.0.0.1"]

    return await fetch(f"https://{host}:{api.port}/", None, ApiHosts.of([f"{host}:{api.port}"]), resolver=resolver)


@pytest.fixture
def trusted(monkeypatch):
    """As if the authority were one that everybody trusts."""
    context = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
    monkeypatch.setattr(fetching, "_certificates", lambda: context)


async def test_the_certificate_is_checked_for_the_hosts_name_not_for_the_address(trusted):
    async with served_over_tls() as (api, asked):
        assert await called(api, HOST) == 1
    assert asked == [HOST]
    assert f"\r\nhost: {HOST}:{api.port}\r\n".encode() in api.requests[0].lower()


@pytest.mark.parametrize("host", ["other.example.com", "example.com", "127.0.0.1"])
async def test_a_certificate_of_another_host_is_refused(trusted, host):
    async with served_over_tls() as (api, _):
        with pytest.raises(CallFailed, match="certificate is not valid for"):
            await called(api, host)
    assert api.requests == []


async def test_an_authority_that_nobody_knows_is_refused(monkeypatch):
    """Nor does the environment make it known."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    fetching._certificates.cache_clear()
    async with served_over_tls() as (api, _):
        with pytest.raises(CallFailed, match="certificate verify failed"):
            await called(api, HOST)
    assert api.requests == []
