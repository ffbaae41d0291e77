"""Clients that vanish at the first chunk, and clients that hardly read: what they held is given back."""

import asyncio
import contextlib
import json
import socket
import time

import pytest

from tests.faults import census
from tests.support.deployment import deployed

pytestmark = [pytest.mark.integration, pytest.mark.soak]

WARM_UP = 50
VANISHING = 1000
AT_ONCE = 200
SLOW_READERS = 8
SLOW_READERS_S = 25
CUT_OFF_S = 5.0
MOST_MIB_EACH = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    cut_off = ("--set", f"gateway.slow_reader_timeout_s={CUT_OFF_S}")
    with deployed(tmp_path_factory.mktemp("clients"), *cut_off, *census.SMALL_POOL) as deployment:
        yield deployment


def request(server, number, tokens, **fields):
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
    body = json.dumps({"text": f"Number {number}:", "stream": True, "sampling_params": sampling} | fields)
    return f"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def vanish(server, number, gate):
    """As soon as the first event is there: the socket is closed with all that is under way unread."""
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(server, number, tokens=2000))
        found = await asyncio.wait_for(reader.readuntil(b"data: "), 120)
        assert b" 200 " in found, found
        writer.transport.abort()


async def crowd(server, clients):
    gate = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(vanish(server, number, gate) for number in range(clients)))


def test_a_thousand_clients_vanish_at_the_first_chunk(server):
    asyncio.run(crowd(server, WARM_UP))
    base = census.take(server)
    asyncio.run(crowd(server, VANISHING))
    census.take(server).check(base)
    outcomes = [line["outcome"] for line in server.lines("request") if line["stream"]]
    assert outcomes == ["client_closed"] * (WARM_UP + VANISHING)


class SlowReader:
    """Takes a byte a second, or none, of an answer that is larger than all buffers in between."""

    def __init__(self, server, number):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(("127.0.0.1", server.port))
        self._socket.sendall(request(server, number, tokens=1000, return_logprob=True, top_logprobs_num=20))

    def read_byte(self):
        with contextlib.suppress(ConnectionError):  # cut off
            self._socket.recv(1)

    def close(self):
        self._socket.close()


def test_readers_of_a_byte_a_second(server):
    asyncio.run(crowd(server, WARM_UP))
    base = census.take(server)
    readers = [SlowReader(server, number) for number in range(SLOW_READERS)]
    peak = 0
    for _ in range(SLOW_READERS_S):
        time.sleep(1)
        for reader in readers[::2]:  # the others take nothing
            reader.read_byte()
        peak = max(peak, census.holdings(server)["gateway"].resident_bytes)
        server.generate("Hi", max_new_tokens=1)
    grown = (peak - base.processes["gateway"].resident_bytes) >> 20
    lines = [line for line in server.lines("request") if line["stream"]][-SLOW_READERS:]
    after_s = max(line["total_s"] for line in lines)
    print(f"\n{SLOW_READERS} cut off after {after_s:.1f} s at most; the gateway grew by {grown} MiB")
    for reader in readers:
        reader.close()
    census.take(server).check(base)
    assert [line["outcome"] for line in lines] == ["client_closed"] * SLOW_READERS
    assert after_s < SLOW_READERS_S - 5
    assert grown < SLOW_READERS * MOST_MIB_EACH
