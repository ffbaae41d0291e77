"""The cached tokens of a request are the same figure in its reply, in its log line and in the counters."""

import asyncio
import json

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from shared import wire
from tests.support.served_gateway import serving

PROMPT = "Once upon a time"
PATHS = ("/generate", "/v1/chat/completions", "/v1/completions")


class Account:
    """A served gateway, and what it says of its requests in each of the places."""

    def __init__(self, served, entries):
        self.served = served
        self.pipeline = served.pipeline
        self._entries = entries

    def lines(self):
        return [entry for entry in self._entries if entry["event"] == "request"]

    async def counters(self):
        """Prompt tokens that were found and that were not, so far, and all of them."""
        return await self.values("sapwood_cache_hit_total", "sapwood_cache_miss_total", "sapwood_prompt_tokens_total")

    async def values(self, *names):
        async with self.served.client.get("/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        values = {sample.name: sample.value for family in families for sample in family.samples}
        return tuple(values[name] for name in names)

    async def begin_stream(self, path=PATHS[0]):
        """The response to a stream that has had a piece of output."""
        self.pipeline.auto = False
        asking = asyncio.create_task(self.served.client.post(path, json=body(path, stream=True)))
        await self.served.until(lambda: self.pipeline.runs)
        self.pipeline.emit(1)
        return await asking

    async def lose_attempt(self, cached_tokens, executor):
        """The next one finds so much, there."""
        (request_id,) = self.pipeline.runs
        submits = len(self.pipeline.submits)
        self.pipeline.cached_tokens, self.pipeline.executor = cached_tokens, executor
        self.pipeline.hub.send("gw", wire.Lost(request_id, 1, "executor died"))
        await self.served.until(lambda: len(self.pipeline.submits) > submits)


@pytest.fixture
async def account(tmp_path, tiny_card):
    captured = structlog.testing.LogCapture()
    structlog.configure(processors=[captured])
    async with serving(tmp_path, tiny_card) as served:
        yield Account(served, captured.entries)
    structlog.reset_defaults()


def body(path, **more):
    if "chat" in path:
        return {"messages": [{"role": "user", "content": PROMPT}], **more}
    return {"prompt": PROMPT, **more}


def usage(reply):
    """Cached and prompt tokens, as the API says it."""
    if "meta_info" in reply:
        return reply["meta_info"]["cached_tokens"], reply["meta_info"]["prompt_tokens"]
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"], reply["usage"]["prompt_tokens"]


async def read_events(response):
    """The events of a stream, to its end."""
    frames = (await response.text()).split("\n\n")
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame and "[DONE]" not in frame]


def logged(line):
    return line["cached_tokens"], line["prompt_tokens"]


async def test_one_set_of_requests_has_one_sum_everywhere(account):
    """Whole and streamed, of all three APIs, one that was tried again, two whose client left."""
    replied = []
    for cached_tokens, path in enumerate(PATHS, 3):
        account.pipeline.cached_tokens = cached_tokens
        _, reply, _ = await account.served.post(path, body(path))
        replied.append(usage(reply))
        streamed = body(path) if path == "/generate" else body(path, stream_options={"include_usage": True})
        events, _ = await account.served.events(path, streamed)
        replied.append(usage(events[-1]))

    account.pipeline.cached_tokens = 7
    retried = await account.begin_stream()
    await account.lose_attempt(cached_tokens=15, executor="executor-2")
    account.pipeline.emit()
    replied.append(usage((await read_events(retried))[-1]))

    account.pipeline.cached_tokens = 9
    left = await account.begin_stream()
    replied.append(usage(json.loads((await left.content.readline()).removeprefix(b"data: "))))
    left.close()
    await account.served.until(lambda: len(account.lines()) == 8)

    assert replied == [(3, 16)] * 2 + [(4, 16)] * 2 + [(5, 16)] * 2 + [(7, 16), (9, 16)]
    assert [logged(line) for line in account.lines()] == replied
    cached, prompt = map(sum, zip(*replied, strict=True))
    assert await account.counters() == (cached, prompt - cached, prompt)


async def test_usage_so_far_is_the_same_in_every_chunk(account):
    options = {"include_usage": True, "continuous_usage_stats": True}
    events, _ = await account.served.events(PATHS[1], body(PATHS[1], stream_options=options))
    assert {usage(event) for event in events} == {(2, 16)}
    assert [logged(line) for line in account.lines()] == [(2, 16)]


async def test_who_left_before_anything_was_computed_counts_nowhere(account):
    account.pipeline.auto = False
    asking = asyncio.create_task(account.served.post(PATHS[0], body(PATHS[0])))
    await account.served.until(lambda: account.pipeline.runs)
    asking.cancel()
    await account.served.until(account.lines)
    assert [logged(line) for line in account.lines()] == [(0, 0)]
    assert await account.counters() == (0, 0, 0)


async def test_a_request_that_moved_names_the_executor_it_ended_on(account):
    response = await account.begin_stream()
    await account.lose_attempt(cached_tokens=15, executor="executor-2")
    account.pipeline.emit()
    await response.read()
    await account.served.until(account.lines)
    (line,) = account.lines()
    assert (line["executor"], line["attempts"], line["cached_tokens"]) == ("executor-2", 2, 2)
    assert await account.values("sapwood_resubmissions_total") == (1,)


async def test_an_update_without_an_executor_does_not_make_it_unknown(account):
    response = await account.begin_stream()
    account.pipeline.executor = ""
    account.pipeline.emit()
    await response.read()
    await account.served.until(account.lines)
    assert account.lines()[0]["executor"] == "executor-1"
