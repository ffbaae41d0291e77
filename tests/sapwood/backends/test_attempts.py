"""Over sockets: only a connection tells whether it was kept, and what came of an answer before it broke."""

import asyncio
import contextlib

import pytest

from sapwood.backends.answers import ANYTHING
from sapwood.backends.attempts import Attempt
from sapwood.backends.http import Http
from sapwood.errors import ConnectionFailed, TimedOut

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"
STREAM = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


class Server:
    """Answers each request with the next of these, and closes the connection after one that is not whole."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.connections = []

    async def serve(self, reader, writer):
        self.connections.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = WHOLE
            while answer == WHOLE:
                await reader.readuntil(b"\r\n\r\n")
                answer = self.answers.pop(0)
                await answer(writer) if callable(answer) else writer.write(answer)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def http(self, **options):
        async def sleep(_seconds):
            pass

        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        http = Http(f"http://127.0.0.1:{port}", sleep=sleep, **options)
        try:
            yield http
        finally:
            await http.aclose()
            await asyncio.gather(*self.connections)
            server.close()


@pytest.mark.parametrize("answer", [b"", HALF, HALF[:20]])
async def test_what_a_server_took_and_did_not_answer_is_not_sent_again(answer):
    server = Server(answer, WHOLE)
    async with server.http() as http:
        with pytest.raises(ConnectionFailed):
            await http.get("/x", ANYTHING)
    assert server.answers == [WHOLE]


async def test_a_kept_connection_that_was_closed_is_replaced():
    server = Server(WHOLE, b"", WHOLE)
    async with server.http() as http:
        assert [await http.get("/x", ANYTHING) for _ in range(2)] == [{}, {}]
    assert (len(server.connections), server.answers) == (2, [])


async def test_half_an_answer_on_a_kept_connection_is_not_sent_again():
    server = Server(WHOLE, HALF, WHOLE)
    async with server.http() as http:
        await http.get("/x", ANYTHING)
        with pytest.raises(ConnectionFailed):
            await http.get("/x", ANYTHING)
    assert server.answers == [WHOLE]


async def drip(writer):
    """Never so slow that a byte is late."""
    while True:
        writer.write(b": ping\n\n")
        await writer.drain()
        await asyncio.sleep(0)


async def drip_answer(writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    await drip(writer)


async def drip_stream(writer):
    writer.write(STREAM)
    await drip(writer)


async def test_an_answer_that_drips_is_too_late():
    async with Server(drip_answer).http(timeout_s=0.1) as http:
        with pytest.raises(TimedOut):
            await http.get("/x", ANYTHING)


async def test_comments_are_no_events():
    async with Server(drip_stream).http(timeout_s=0.1) as http:
        with pytest.raises(TimedOut):
            [each async for each in http.events("/x", {}, ANYTHING)]


async def test_waiting_for_a_connection_takes_none_of_the_time():
    attempt = Attempt(5.0)
    async with attempt.deadline:
        assert attempt.deadline.when() is None
        await attempt.trace("http11.send_request_headers.started", None)
        assert attempt.deadline.when() is not None
