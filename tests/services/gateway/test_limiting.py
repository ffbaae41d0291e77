"""Limits of keys over HTTP: on which routes, in which words, and counted once whatever becomes of the request."""

import asyncio

import pytest

from shared.config import KeyLimits, KeyLimitsConfig
from tests.support.rate_clock import RateClock
from tests.support.served_gateway import serving

ALICE = {"Authorization": "Bearer sk-alice"}
BOB = {"Authorization": "Bearer sk-bob"}
ROOT = {"Authorization": "Bearer sk-root"}


@pytest.fixture
def limited(tmp_path, tiny_card, monkeypatch):
    """A gateway where alice has these limits, and the others have none."""
    RateClock(monkeypatch)

    def start(**limits):
        names = KeyLimitsConfig(names={"alice": KeyLimits(**limits)})
        keys = {"api_keys": ("alice: sk-alice", "bob: sk-bob"), "admin_key": "sk-root", "key_limits": names}
        return serving(tmp_path, tiny_card, **keys)

    return start


async def generate(served, headers=ALICE, **body):
    return await served.post("/generate", {"text": "Once", **body}, headers=headers)


async def test_a_refusal_says_what_is_used_up_and_when_to_come_back(limited):
    async with limited(requests_per_minute=2) as served:
        _, _, headers = await generate(served)
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == "1"
        assert headers["x-ratelimit-reset-requests"].endswith("s")
        assert "x-ratelimit-limit-tokens" not in headers
        await generate(served)
        status, reply, headers = await generate(served)
        assert (status, reply["error"]["type"], reply["error"]["code"]) == (
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        )
        assert "2 requests a minute" in reply["error"]["message"]
        assert headers["Retry-After"] == "60"
        assert headers["x-ratelimit-remaining-requests"] == "0"
        assert len(served.pipeline.encodes) == 2
        for others in (BOB, ROOT):
            status, _, headers = await generate(served, others)
            assert status == 200
            assert "x-ratelimit-limit-requests" not in headers


async def test_prompts_and_outputs_are_what_is_counted(limited):
    async with limited(tokens_per_minute=100) as served:
        _, reply, _ = await generate(served, text=["Once", "Twice"], sampling_params={"n": 2})
        counted = sum(len(text) for text in ("Once", "Twice")) + sum(
            one["meta_info"]["completion_tokens"] for one in reply
        )
        _, _, headers = await generate(served)
        assert int(headers["x-ratelimit-remaining-tokens"]) == 100 - counted


async def test_streams_are_told_and_counted_too(limited):
    async with limited(tokens_per_minute=100, requests_per_minute=9) as served:
        async with served.client.post("/generate", json={"text": "Once", "stream": True}, headers=ALICE) as response:
            assert response.headers["x-ratelimit-remaining-requests"] == "8"
            await response.read()
        _, _, headers = await generate(served)
        assert int(headers["x-ratelimit-remaining-tokens"]) == 100 - 8


async def test_a_client_that_goes_away_has_used_what_it_got(limited):
    async with limited(tokens_per_minute=100, concurrent_requests=1) as served:
        served.pipeline.auto = False
        asked = asyncio.create_task(generate(served))
        await served.until(lambda: served.pipeline.runs)
        assert (await generate(served))[0] == 429
        served.pipeline.emit(2)
        asked.cancel()
        await served.until(lambda: served.pipeline.aborts)
        served.pipeline.auto = True
        status, _, headers = await generate(served)
        assert (status, headers["x-ratelimit-remaining-tokens"]) == (200, str(100 - 6))


async def test_what_is_submitted_again_after_a_fault_is_one_request(limited):
    async with limited(requests_per_minute=1, concurrent_requests=1, tokens_per_minute=5) as served:
        served.pipeline.auto = False
        asked = asyncio.create_task(generate(served))
        await served.until(lambda: served.pipeline.runs)
        served.pipeline.kill_scheduler()
        served.pipeline.auto = True
        served.pipeline.start_scheduler("hub-2")
        await served.gateway.refresh()
        status, reply, _ = await asked
        assert (status, reply["meta_info"]["completion_tokens"]) == (200, 4)
        assert [submit.attempt for submit in served.pipeline.submits] == [1, 2]


async def test_requests_in_the_background_hold_their_place_until_they_end(limited):
    body = {"input": "Once", "background": True, "store": True}
    async with limited(concurrent_requests=1, tokens_per_minute=1000) as served:
        served.pipeline.auto = False
        status, _, _ = await served.post("/v1/responses", body, headers=ALICE)
        assert status == 200
        assert (await served.post("/v1/responses", body, headers=ALICE))[0] == 429
        await served.until(lambda: served.pipeline.runs)
        served.pipeline.emit()

        async def is_free():
            return (await served.post("/tokenize", {"prompt": "x"}, headers=ALICE))[0] == 200

        await served.until(is_free)
        _, _, headers = await served.post("/tokenize", {"prompt": "x"}, headers=ALICE)
        assert int(headers["x-ratelimit-remaining-tokens"]) == 1000 - 8


async def test_invalid_requests_count_and_what_frees_or_only_reads_does_not(limited):
    async with limited(requests_per_minute=2) as served:
        await generate(served, temperature="hot")
        await served.get("/health_generate", headers=ALICE)
        assert (await generate(served))[0] == 429
        assert (await served.post("/tokenize", {"prompt": "x"}, headers=ALICE))[0] == 429
        assert (await served.get("/health_generate", headers=ALICE))[0] == 429
        assert (await served.get("/v1/models", headers=ALICE))[0] == 200
        assert (await served.post("/abort_request", {"rid": "x"}, headers=ALICE))[0] == 200
        assert (await served.post("/v1/responses/x/cancel", headers=ALICE))[0] == 404
        assert (await served.post("/nowhere", {}, headers=ALICE))[0] == 404
        assert (await served.post("/flush_cache", headers=ALICE))[0] == 403


async def test_anthropics_clients_are_refused_in_their_form(limited):
    async with limited(requests_per_minute=1) as served:
        await generate(served)
        status, reply, _ = await served.post("/v1/messages", {}, headers=ALICE)
        assert (status, reply["type"], reply["error"]["type"]) == (429, "error", "rate_limit_error")
