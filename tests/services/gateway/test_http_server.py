"""What is refused before there is a request."""

import asyncio
import contextlib
import json
import resource

import pytest
from aiohttp.http_exceptions import HttpProcessingError

from services.gateway.http_server import NO_HTTP, SPARE_FILES, _unreadable, connection_limit
from shared import wire
from tests.support.served_gateway import serving

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


async def sent(served, raw):
    """Status, headers and body of the answer to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(raw)
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    await writer.wait_closed()
    return int(status.split()[1]), headers, json.loads(body)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (HEAD + b"Long: " + b"x" * 10_000 + b"\r\n\r\n", 431),
        (HEAD + b"".join(b"h%d: x\r\n" % number for number in range(200)) + b"\r\n", 431),
        (HEAD + b"".join(b"h%d: %s\r\n" % (number, b"x" * 8000) for number in range(20)), 431),  # and no end
        (b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        (b"GET /health\r\n\r\n", 400),
        (b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400),
        (HEAD + b"Expect: nothing\r\n\r\n", 417),
    ],
)
async def test_what_is_no_http_is_refused_as_all_else(served, raw, status):
    found, headers, body = await sent(served, raw)
    assert found == status
    assert headers["content-type"].startswith("application/json")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert headers["x-request-id"]
    assert headers["x-should-retry"] == "false"
    assert headers["server"] == "sapwood"
    status, _, headers = await served.get("/health")
    assert (status, headers["server"]) == (200, "sapwood")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n", "invalid method encountered"),
        (b"GET / HTTP/1.1\r\n\r\n", "missing 'Host' header in request"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n", "duplicate Content-Length"),
        (HEAD + b"Key: sec\0ret\r\n\r\n", "invalid header value char"),
        (b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "the path is not one"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "received HTTPS traffic on an HTTP port"),
    ],
)
async def test_the_reason_is_told_without_what_was_sent(served, raw, reason):
    _, _, body = await sent(served, raw)
    assert body["error"]["message"] == f"this is not HTTP/1.1 that can be read: {reason}"


def test_a_parser_without_words_is_told_without():
    assert _unreadable(HttpProcessingError()) == NO_HTTP


async def test_a_body_that_breaks_off_in_its_framing(served):
    raw = b"POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    found, headers, body = await sent(served, raw)
    assert (found, set(body["error"])) == (400, {"message", "type", "param", "code"})
    assert headers["x-request-id"]


async def test_the_connection_of_a_stream_that_fails_serves_the_next_request(served):
    served.pipeline.finish_error = wire.Error("it broke", "broken", status=500)
    body = json.dumps({"prompt": "x", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    for _ in range(2):
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        async with asyncio.timeout(5):
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert b'"message":"it broke"' in answer
        assert b"[DONE]" not in answer
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length : 2\r\n",
        b"Content-Length: 2\r\n folded\r\n",
        b"Content-Length: 2\nX: y\r\n",
        b"X: a\rb\r\nContent-Length: 2\r\n",
        b"X: a\x00b\r\nContent-Length: 2\r\n",
        b"Host: y\r\nContent-Length: 2\r\n",
    ],
)
async def test_where_a_body_ends_is_never_a_matter_of_opinion(served, headers):
    """Proxies that read it otherwise would take the rest for a request of somebody else."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(b"POST /generate HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n{}" + HEAD + b"\r\n")
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert answer.count(b"HTTP/1.") == 1 + answer.count(b"this is not HTTP/1.1")
    writer.close()


@pytest.mark.parametrize("start", [b"G", HEAD, b"POST /generate HTTP/1.1\r\nHost: localhost\r\n"], ids=repr)
async def test_headers_that_do_not_come_to_an_end_are_given_up(tmp_path, tiny_card, start):
    async with serving(tmp_path, tiny_card, read_timeout_s=0.05) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(start)
        async with asyncio.timeout(5):
            answer = await reader.read()
        assert b"HTTP/1.1 408 " in answer
        assert b'"code":"request_timeout"' in answer
        writer.close()


async def test_a_byte_at_a_time_makes_it_no_longer(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, read_timeout_s=0.05) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        end = asyncio.create_task(reader.read())
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                while not end.done():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0)
                await end
        writer.close()


@pytest.mark.parametrize("start", [b"", HEAD + b"\r\n"])
async def test_an_idle_connection_ends(tmp_path, tiny_card, start):
    async with serving(tmp_path, tiny_card, keepalive_timeout_s=0.05) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(start)
        async with asyncio.timeout(5):
            assert (await reader.read()).count(b"HTTP/1.1 ") == bool(start)
        writer.close()


async def test_one_connection_too_many_is_turned_away_if_none_is_idle(tmp_path, tiny_card):
    body = b'{"text": "x"}'
    async with serving(tmp_path, tiny_card, max_connections=3) as served:
        await served.client.close()
        served.pipeline.auto = False
        busy = [await asyncio.open_connection("127.0.0.1", served.gateway.port) for _ in range(3)]
        for _, writer in busy:
            writer.write(b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await served.until(lambda: len(served.pipeline.runs) == 3)
        status, headers, reply = await sent(served, HEAD + b"\r\n")
        assert (status, headers["retry-after"], reply["error"]["code"]) == (503, "1", "overloaded")
        served.pipeline.emit()
        async with asyncio.timeout(5):
            for reader, _ in busy:
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
            assert (await sent(served, HEAD + b"\r\n"))[0] == 200
            await busy[0][0].read()  # to its end: the oldest idle one has made room
        for _, writer in busy:
            writer.close()


async def test_the_number_of_connections_is_bounded_by_that_of_open_files(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert connection_limit(10_000) == 4096 - SPARE_FILES
    assert connection_limit(100) == 100
    assert asked == [(4096, 4096)] * 2
