"""What is refused before there is a request."""

import asyncio
import json

import pytest

from shared import wire
from tests.support.served_gateway import serving

HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"


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
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (HEAD + b"Long: " + b"x" * 10_000 + b"\r\n\r\n", 431),
        (HEAD + b"".join(b"h%d: x\r\n" % number for number in range(200)) + b"\r\n", 400),
        (b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (HEAD + b"Expect: nothing\r\n\r\n", 417),
    ],
)
async def test_what_is_no_http_is_refused_as_all_else(served, raw, status):
    found, headers, body = await sent(served, raw)
    assert found == status
    assert headers["content-type"].startswith("application/json")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert headers["x-request-id"]
    assert headers["x-should-retry"] == "false"
    assert (await served.get("/health"))[0] == 200


async def test_a_body_that_breaks_off_in_its_framing(served):
    raw = b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    found, headers, body = await sent(served, raw)
    assert (found, set(body["error"])) == (400, {"message", "type", "param", "code"})
    assert headers["x-request-id"]


async def test_the_connection_of_a_stream_that_fails_serves_the_next_request(served):
    served.pipeline.finish_error = wire.Error("it broke", "broken", status=500)
    body = json.dumps({"prompt": "x", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    for _ in range(2):
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        async with asyncio.timeout(5):
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert b'"message":"it broke"' in answer
        assert b"[DONE]" not in answer
    writer.close()
    await writer.wait_closed()


async def test_a_body_that_cannot_be_read_ends_the_connection_and_says_so(served):
    raw = b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    status, headers, body = await sent(served, raw)
    assert (status, headers["connection"], body["error"]["code"]) == (400, "close", "invalid_body")
