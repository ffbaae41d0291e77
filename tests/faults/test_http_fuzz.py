"""Whatever comes over HTTP: each request is answered in time, with no 5xx but the documented ones, and nothing dies.

A sample goes to the gateway in this process; all of it to real processes with the real model.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from random import Random

import httpx
import pytest

from tests.faults.mutations import requests
from tests.support.deployment import deployed
from tests.support.served_gateway import serving
from tests.support.tiny_card import TINY_CARD

SEED = 20
REQUESTS = 50_000
ANSWER_S = 60.0  # a request that waits for so long hangs
DOCUMENTED = frozenset({b"503", b"505"})  # too much at a time; another version of HTTP
STATUS = re.compile(rb"HTTP/\d\.\d (\d{3}) ")
SHORT = {"read_timeout_s": 1.0, "keepalive_timeout_s": 3.0}  # what is not finished ends soon
FEW = {"max_choices": 8}  # nothing waits for long, whatever its priority


async def test_a_sample_does_no_harm_to_the_gateway(tmp_path):
    async with serving(tmp_path, TINY_CARD, read_timeout_s=0.2, keepalive_timeout_s=0.5) as served:
        found = await sent(served.gateway.port, Random(SEED), 500, at_once=50)
        await served.until(lambda: not served.gateway._dispatcher.open_requests)
        assert (await served.post("/generate", {"text": "x"}))[0] == 200
    assert served.failures == []
    assert_harmless(found)


@pytest.mark.soak
def test_it_does_no_harm_to_a_deployment(tmp_path, capsys):
    settings = [flag for name, value in (SHORT | FEW).items() for flag in ("--set", f"gateway.{name}={value}")]
    with deployed(tmp_path, "--context-length", "64", *settings) as server:
        found = asyncio.run(sent(server.port, Random(SEED), REQUESTS, at_once=32))
        with capsys.disabled():
            print(f"\n{REQUESTS:,} requests: {dict(sorted(found.items()))}")
        assert_harmless(found)
        assert server.generate("Hello", max_new_tokens=2)["meta_info"]["completion_tokens"] == 2
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert server.metric("sapwood_open_requests") == 0
        assert not server.lines("process_ended")
        assert not server.lines("internal_error")


async def sent(port: int, random: Random, count: int, *, at_once: int) -> Counter[bytes]:
    """How often each status came back. Each request has a connection of its own, which the server ends."""
    found: Counter[bytes] = Counter()
    waiting = requests(random, count)

    async def client() -> None:
        for raw in waiting:
            found.update(STATUS.findall(await answer(port, raw)) or [b"none"])

    await asyncio.gather(*(client() for _ in range(at_once)))
    return found


async def answer(port: int, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        async with asyncio.timeout(ANSWER_S):
            writer.write(raw.replace(b"Host: localhost\r\n", b"Host: localhost\r\nConnection: close\r\n", 1))
            while piece := await reader.read(65536):
                received += piece
    except TimeoutError:
        raise AssertionError(f"no answer to {raw!r}") from None
    except ConnectionError:
        pass  # refused while it was still being sent
    finally:
        writer.close()
    return received


def assert_harmless(found: Counter[bytes]) -> None:
    assert found[b"200"] > 0, found
    assert found[b"400"] > 0
    assert not [status for status in found if status.startswith(b"5") and status not in DOCUMENTED], found
