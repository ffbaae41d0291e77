"""Clients that do not take what they have asked for."""

import asyncio
import json
import socket

import pytest

from tests.support.served_gateway import serving

MUCH = "x" * 16_000_000  # more than the kernel's buffers hold


async def connection_that_never_reads(served, body):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", served.gateway.port))
    content = json.dumps(body).encode()
    head = b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(content)
    await loop.sock_sendall(client, head + content)
    return client


async def test_who_takes_nothing_of_a_stream_is_cut_off_and_its_work_freed(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, pieces=(MUCH, "!", "!"), slow_reader_timeout_s=0.3) as served:
        served.pipeline.auto = False
        client = await connection_that_never_reads(served, {"text": "x", "stream": True})
        await served.until(lambda: served.pipeline.runs)
        served.pipeline.emit(1)
        await served.until(lambda: served.pipeline.aborts)
        assert served.pipeline.aborts[0].reason == "client"
        assert served.pipeline.runs == {}
        client.close()


async def test_who_takes_nothing_of_a_whole_answer_is_cut_off(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, pieces=(MUCH, "!"), slow_reader_timeout_s=0.3) as served:
        client = await connection_that_never_reads(served, {"text": "x"})
        server = served.gateway._runner.server
        await served.until(lambda: served.gateway.progress().last_seq == 1)
        before = len(server.connections)
        await served.until(lambda: len(server.connections) == before - 1)
        client.close()


async def test_who_waits_long_for_its_first_token_is_not_cut_off(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, slow_reader_timeout_s=0.05) as served:
        served.pipeline.auto = False
        asking = asyncio.create_task(served.post("/generate", {"text": "x"}))
        await served.until(lambda: served.pipeline.runs)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await asyncio.shield(asking)
        served.pipeline.emit()
        assert (await asking)[1]["text"] == "Hello, world!"
