"""Clients that vanish at the first chunk, and clients that hardly read: what they held is given back."""

import asyncio
import json
import statistics

import pytest

from tests.faults import census
from tests.support.deployment import deployed

pytestmark = pytest.mark.integration

WARM_UP = 50
AT_ONCE = 200
SLOW_READERS = 32
SLOW_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("clients"), *census.SMALL_POOL) as deployment:
        yield deployment


def request(server, number, tokens):
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
    body = json.dumps({"text": f"Number {number}:", "stream": True, "sampling_params": sampling})
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


@pytest.mark.parametrize("clients", [pytest.param(1000, marks=pytest.mark.soak)])
def test_clients_that_vanish_at_the_first_chunk(server, clients):
    asyncio.run(crowd(server, WARM_UP))
    base = census.take(server)
    asyncio.run(crowd(server, clients))
    census.take(server).check(base)
    assert all(line["outcome"] == "client_closed" for line in server.lines("request")[-clients - 1 : -1])


async def read_slowly(server, number):
    """A byte a second, through a receive buffer that holds next to nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
    writer.write(request(server, number, tokens=2000))
    for _ in range(int(SLOW_S)):
        await reader.read(1)
        await asyncio.sleep(1)
    writer.transport.abort()


async def beside_slow_readers(server):
    """How long a plain request takes, before and beside them."""
    before = [await timed(server) for _ in range(5)]
    slow = [asyncio.create_task(read_slowly(server, number)) for number in range(SLOW_READERS)]
    await asyncio.sleep(1)
    beside = [await timed(server) for _ in range(5)]
    await asyncio.gather(*slow)
    return statistics.median(before), statistics.median(beside)


async def timed(server):
    start_s = asyncio.get_running_loop().time()
    await asyncio.to_thread(server.generate, "Hi", max_new_tokens=4)
    return asyncio.get_running_loop().time() - start_s


@pytest.mark.soak
def test_readers_of_a_byte_a_second(server):
    asyncio.run(crowd(server, WARM_UP))
    base = census.take(server)
    before, beside = asyncio.run(beside_slow_readers(server))
    print(f"\na request takes {before:.2f} s alone, {beside:.2f} s beside {SLOW_READERS} readers of a byte a second")
    census.take(server).check(base)
