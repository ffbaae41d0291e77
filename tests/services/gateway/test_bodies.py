"""Bodies that are too large, too slow, or too many at a time are refused, if possible before they are sent."""

import asyncio
import json

import pytest

from tests.support.served_gateway import serving

BODY = b'{"text": "x"}'
HEAD = b"POST /generate HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_body_bytes=1000, max_reading_bytes=2000) as found:
        yield found


class Connection:
    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    def send(self, data):
        self._writer.write(data)

    async def answer(self):
        """Status, headers and body of the next one."""
        async with asyncio.timeout(5):
            status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(status.split()[1]), headers, json.loads(body) if body else None

    async def end(self):
        async with asyncio.timeout(5):
            return await self._reader.read()

    def close(self):
        self._writer.close()


@pytest.fixture
async def connect(served):
    opened = []

    async def open_one():
        opened.append(Connection(*await asyncio.open_connection("127.0.0.1", served.gateway.port)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def length(number):
    return b"Content-Length: %d\r\n" % number


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
async def test_a_body_that_is_announced_as_too_large_is_not_waited_for(connect, expect):
    connection = await connect()
    connection.send(HEAD + length(1001) + expect + b"\r\n")
    status, headers, body = await connection.answer()
    assert (status, headers["connection"], body["error"]["code"]) == (413, "close", "request_too_large")
    assert headers["x-request-id"]


async def test_a_body_of_unknown_size_is_cut_at_the_limit(connect):
    connection = await connect()
    connection.send(CHUNKED + b"3e9\r\n" + b" " * 1001)
    assert (await connection.answer())[0] == 413


async def test_a_client_that_asks_first_is_told_to_go_on(connect):
    connection = await connect()
    connection.send(HEAD + length(len(BODY)) + b"Expect: 100-continue\r\n\r\n")
    assert (await connection.answer())[0] == 100
    connection.send(BODY)
    assert (await connection.answer())[0] == 200


async def test_a_client_without_the_right_to_ask_is_not_told_to_go_on(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("secret",)) as served:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", served.gateway.port))
        connection.send(HEAD + length(5) + b"Expect: 100-continue\r\n\r\n")
        assert (await connection.answer())[0] == 401
        connection.close()


@pytest.mark.parametrize("start", [HEAD + length(len(BODY)) + b"\r\n" + BODY[:-1], CHUNKED, CHUNKED + b"5\r\n{"])
async def test_a_body_that_does_not_come_to_an_end_is_given_up(tmp_path, tiny_card, start):
    async with serving(tmp_path, tiny_card, read_timeout_s=0.05) as served:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", served.gateway.port))
        connection.send(start)
        status, headers, body = await connection.answer()
        assert (status, headers["connection"], body["error"]["code"]) == (408, "close", "request_timeout")
        assert headers["x-request-id"]
        connection.close()


async def test_all_bodies_that_are_being_read_have_one_bound(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_body_bytes=1000, max_reading_bytes=1500) as served:
        first, second, third = [
            Connection(*await asyncio.open_connection("127.0.0.1", served.gateway.port)) for _ in range(3)
        ]
        first.send(HEAD + length(900) + b"Expect: 100-continue\r\n\r\n")
        assert (await first.answer())[0] == 100  # it is being read
        first.send(b" " * 899)
        second.send(HEAD + length(900) + b"\r\n" + b" " * 899)
        status, headers, body = await second.answer()
        assert (status, body["error"]["code"], headers["retry-after"]) == (503, "overloaded", "1")
        first.send(b" ")
        assert (await first.answer())[2]["error"]["code"] == "invalid_json"
        for _ in range(3):  # nothing is still counted
            third.send(HEAD + length(900) + b"\r\n" + BODY + b" " * (900 - len(BODY)))
            assert (await third.answer())[0] == 200
        for connection in (first, second, third):
            connection.close()


async def test_a_body_that_could_never_fit_is_too_large(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_body_bytes=1000, max_reading_bytes=500) as served:
        assert (await served.post("/generate", data=b" " * 501))[0] == 413
        assert (await served.post("/generate", data=BODY + b" " * (500 - len(BODY))))[0] == 200


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"deflate", b"zstd", b"gzip, gzip"])
async def test_compressed_bodies_are_not_read(connect, encoding):
    connection = await connect()
    connection.send(HEAD + b"Content-Encoding: " + encoding + b"\r\n" + length(2) + b"\r\n{}")
    status, headers, body = await connection.answer()
    assert (status, headers["connection"], body["error"]["code"]) == (415, "close", "unsupported_encoding")


async def test_the_connection_of_a_body_that_breaks_off_ends(connect):
    connection = await connect()
    connection.send(CHUNKED + b"zz\r\n")
    status, _, body = await connection.answer()
    assert (status, body["error"]["code"]) == (400, "invalid_http")
    assert await connection.end() == b""
