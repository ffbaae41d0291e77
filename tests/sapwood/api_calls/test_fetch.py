import asyncio
import datetime
import enum
import socket
from decimal import Decimal
from uuid import UUID

import pytest

from sapwood.api_calls.fetch import fetch
from sapwood.api_calls.hosts import ApiHosts
from sapwood.errors import CallFailed, CallRefused, ProgramError
from tests.support.outside_api import answer, outside_api

SUNNY = answer(b'{"sky": "clear", "celsius": 21}')


def at(*addresses):
    """A resolver, and how often it was asked."""
    asked = []

    async def resolver(host, port):
        asked.append((host, port))
        return list(addresses)

    return resolver, asked


def listing(api, host="127.0.0.1"):
    return ApiHosts.of([f"{host}:{api.port}"])


async def test_the_answer_is_the_json_value():
    async with outside_api(forecast=SUNNY) as api:
        value = await fetch(api.url("/forecast?day=1"), {"place": "São Paulo & co", "days": 3}, listing(api))
    assert value == {"sky": "clear", "celsius": 21}
    line = api.requests[0].partition(b"\r\n")[0]
    assert line == b"GET /forecast?day=1&place=S%C3%A3o+Paulo+%26+co&days=3 HTTP/1.1"


class Size(enum.Enum):
    SMALL = "s"


async def test_what_is_a_text_in_json_goes_without_its_quotes():
    params = {
        "day": datetime.date(2024, 1, 2),
        "price": Decimal("1.5"),
        "size": Size.SMALL,
        "id": UUID(int=1),
        "no": None,
    }
    async with outside_api(forecast=SUNNY) as api:
        await fetch(api.url("/forecast"), params | {"flag": True, "list": [1]}, listing(api))
    query = api.requests[0].split(b" ")[1].partition(b"?")[2]
    assert query == b"day=2024-01-02&price=1.5&size=s&id=00000000-0000-0000-0000-000000000001&flag=true&list=%5B1%5D"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("value", [object(), "\ud800"])
async def test_what_cannot_be_sent_is_the_programs_fault(method, value):
    async with outside_api() as api:
        with pytest.raises(ProgramError, match="params"):
            await fetch(api.url("/forecast"), {"a": value}, listing(api), method=method)


async def test_a_name_that_cannot_be_asked_for():
    host = f"{'a' * 64}.example.com"
    with pytest.raises(CallFailed, match=host):
        await fetch(f"http://{host}/", None, ApiHosts.of([host]))


async def test_what_has_not_changed_is_no_redirect():
    async with outside_api(same=answer(b"", status="304 Not Modified")) as api:
        with pytest.raises(CallFailed, match="304"):
            await fetch(api.url("/same"), None, listing(api))


async def test_post_sends_json():
    async with outside_api(orders=SUNNY) as api:
        await fetch(api.url("/orders"), {"items": [1, 2]}, listing(api), method="POST")
    head, body = api.requests[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /orders ")
    assert b"content-type: application/json" in head.lower()
    assert body == b'{"items":[1,2]}'


async def test_a_host_that_is_not_listed_hears_nothing():
    async with outside_api(forecast=SUNNY) as api:
        with pytest.raises(CallRefused):
            await fetch(api.url("/forecast"), None, ApiHosts.of(["api.example.com"]))
    assert api.requests == []


async def test_the_connection_goes_to_the_address_that_was_judged_in_the_name_of_the_host():
    """A name that would be resolved again would be somebody else's, or not be found at all."""
    async with outside_api(forecast=SUNNY) as api:
        resolver, asked = at("127.0.0.1")
        url = api.url("/forecast", "inside.example.com")
        await fetch(url, None, listing(api, "inside.example.com"), resolver=resolver)
    assert asked == [("inside.example.com", api.port)]
    assert f"\r\nhost: inside.example.com:{api.port}\r\n".encode() in api.requests[0].lower()


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:127.0.0.1"], ["nonsense"]])
async def test_a_name_that_means_an_inner_address_is_refused(addresses):
    resolver, _ = at(*addresses)
    with pytest.raises(CallRefused, match="not public"):
        await fetch("http://api.example.com/", None, ApiHosts.of(["api.example.com"]), resolver=resolver)


async def test_where_nobody_listens_at_the_first_address_the_next_is_tried():
    async with outside_api(forecast=SUNNY) as api:
        resolver, _ = at("127.0.0.2", "127.0.0.1")
        url = api.url("/forecast", "inside.example.com")
        assert await fetch(url, None, listing(api, "inside.example.com"), resolver=resolver)


async def test_a_redirect_is_not_followed():
    moved = answer(b"", "Location: /forecast", status="302 Found")
    async with outside_api(moved=moved, forecast=SUNNY) as api:
        with pytest.raises(CallRefused, match="redirects"):
            await fetch(api.url("/moved"), None, listing(api))
    assert len(api.requests) == 1


async def test_an_api_that_does_not_answer():
    async with outside_api() as api:
        with pytest.raises(CallFailed, match=r"within 0\.05 s"):
            await fetch(api.url("/silent"), None, listing(api), timeout_s=0.05)


async def test_an_api_whose_answer_does_not_end():
    async with outside_api(slow=answer(b'{"a":', "Content-Length: 100").replace(b"Connection: close\r\n", b"")) as api:
        with pytest.raises(CallFailed):
            await fetch(api.url("/slow"), None, listing(api), timeout_s=5)


async def test_a_name_whose_resolution_does_not_end():
    async def resolver(host, port):
        await asyncio.Event().wait()

    with pytest.raises(CallFailed, match="within"):
        await fetch(
            "http://api.example.com/", None, ApiHosts.of(["api.example.com"]), timeout_s=0.05, resolver=resolver
        )


@pytest.mark.parametrize(("size", "fits"), [(100, True), (101, False)])
async def test_the_limit_of_size(size, fits):
    body = b'"' + b"x" * (size - 2) + b'"'
    async with outside_api(large=answer(body)) as api:
        call = fetch(api.url("/large"), None, listing(api), max_bytes=100)
        if fits:
            assert await call == "x" * 98
        else:
            with pytest.raises(CallFailed, match="larger than 100 bytes"):
                await call


async def test_an_endless_answer_is_cut_off():
    class Endless:
        closed = asyncio.Event()

        async def serve(self, reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(b"["))
            try:
                while True:
                    writer.write(b"1," * 10_000)
                    await writer.drain()
            except ConnectionError:
                self.closed.set()
            finally:
                writer.close()

    endless = Endless()
    async with await asyncio.start_server(endless.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(CallFailed, match="larger"):
            await fetch(f"http://127.0.0.1:{port}/", None, ApiHosts.of([f"127.0.0.1:{port}"]))
        await asyncio.wait_for(endless.closed.wait(), 10)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"a": 1} and more', b"NaN", b'"\xff"', b"[" * 100_000], ids=lambda body: repr(body[:9])
)
async def test_what_is_no_json(body):
    async with outside_api(page=answer(body)) as api:
        with pytest.raises(CallFailed, match="not JSON"):
            await fetch(api.url("/page"), None, listing(api))


async def test_a_compressed_answer_is_not_unpacked():
    async with outside_api(packed=answer(b"\x1f\x8b", "Content-Encoding: gzip")) as api:
        with pytest.raises(CallFailed, match="compressed"):
            await fetch(api.url("/packed"), None, listing(api))


async def test_a_failure_is_told_without_what_was_asked():
    async with outside_api(broken=answer(b"{}", status="500 Internal Server Error")) as api:
        with pytest.raises(CallFailed, match="HTTP 500") as failure:
            await fetch(api.url("/broken"), {"token": "hidden"}, listing(api))
    assert "hidden" not in str(failure.value)


async def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(CallFailed):
            await fetch(f"http://127.0.0.1:{port}/", None, ApiHosts.of([f"127.0.0.1:{port}"]))


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    async with outside_api(forecast=SUNNY) as api:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
        assert await fetch(api.url("/forecast"), None, listing(api))
