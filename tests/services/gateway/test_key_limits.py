"""What a key may have: refused when it is used up, counted when it is used, and let in when it was said."""

import asyncio

import pytest
from limits.errors import StorageError

from services.gateway.key_limits import Allowances, LimitReached
from services.gateway.keyring import Caller
from shared.config import ConfigError, KeyLimits
from tests.support.rate_clock import RateClock


def caller(name="alice", **limits):
    return Caller(name, limits=KeyLimits(**limits))


@pytest.fixture
def clock(monkeypatch):
    return RateClock(monkeypatch)


@pytest.fixture
def allowances(clock):
    return Allowances(clock.storage)


async def used(allowances, who, tokens=0):
    """One request from begin to end; its headers."""
    admission = await allowances.admit(who)
    admission.end(tokens)
    await asyncio.sleep(0)  # its tokens are counted beside it
    return admission.headers


async def refusal(allowances, who):
    with pytest.raises(LimitReached) as refused:
        await allowances.admit(who)
    return refused.value


async def test_without_limits_nothing_is_counted_and_nothing_told(allowances, clock):
    for _ in range(100):
        assert await used(allowances, caller(), 10**6) == {}
    assert not clock.storage.storage


async def test_requests_a_minute(allowances, clock):
    alice = caller(requests_per_minute=2)
    assert (await used(allowances, alice))["x-ratelimit-remaining-requests"] == "1"
    assert (await used(allowances, alice))["x-ratelimit-remaining-requests"] == "0"
    refused = await refusal(allowances, alice)
    assert (refused.error.status, refused.error.code) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-limit-requests"] == "2"
    await used(allowances, caller("bob", requests_per_minute=2))
    clock.now_s += refused.error.retry_after_s
    await used(allowances, alice)


async def test_tokens_are_counted_when_they_are_used_and_beyond_the_limit(allowances, clock):
    alice = caller(tokens_per_minute=100, requests_per_minute=50)
    assert (await used(allowances, alice, 99))["x-ratelimit-remaining-tokens"] == "100"
    assert (await used(allowances, alice, 301))["x-ratelimit-remaining-tokens"] == "1"
    refused = await refusal(allowances, alice)
    assert "100 tokens a minute" in refused.error.message
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
    assert refused.error.retry_after_s > 60  # what was used beyond the limit delays the next one
    clock.now_s += refused.error.retry_after_s
    remaining = (await used(allowances, alice))["x-ratelimit-remaining-requests"]
    assert int(remaining) > 45  # those that were refused do not count


async def test_requests_at_a_time(allowances):
    alice = caller(concurrent_requests=2)
    first, second = await allowances.admit(alice), await allowances.admit(alice)
    refused = await refusal(allowances, alice)
    assert "2 requests at a time" in refused.error.message
    await allowances.admit(caller("bob", concurrent_requests=1))
    first.end(0)
    third = await allowances.admit(alice)
    for admission in (second, third):
        admission.end(0)
    assert allowances._open.keys() == {"bob"}


async def test_what_a_limit_of_rate_refuses_is_not_open(allowances):
    alice = caller(requests_per_minute=1, concurrent_requests=1)
    await used(allowances, alice)
    for _ in range(3):
        assert "a minute" in (await refusal(allowances, alice)).error.message


async def test_gateways_that_share_a_storage_share_the_count(clock):
    one, other = Allowances(clock.storage), Allowances(clock.storage)
    alice = caller(requests_per_minute=2)
    await used(one, alice)
    await used(other, alice)
    await refusal(one, alice)


@pytest.mark.parametrize(("used_requests", "reset"), [(1, "20.001s"), (2, "50.001s"), (3, "1m0.001s")])
async def test_when_all_is_back_is_told_as_openai_does(allowances, clock, used_requests, reset):
    clock.now_s += 40
    alice = caller(requests_per_minute=10)
    for _ in range(used_requests):
        headers = await used(allowances, alice)
    assert headers["x-ratelimit-reset-requests"] == reset


# --- a storage that is away -------------------------------------------------------------------------------------------


class AwayStorage:
    async def acquire_sliding_window_entry(self, *_):
        raise StorageError(ConnectionRefusedError())

    get_sliding_window = acquire_sliding_window_entry


class SilentStorage:
    async def acquire_sliding_window_entry(self, *_):
        await asyncio.Event().wait()

    get_sliding_window = acquire_sliding_window_entry


@pytest.mark.parametrize("storage", [AwayStorage(), SilentStorage()])
async def test_while_the_counts_cannot_be_reached_everybody_is_admitted(storage, monkeypatch):
    monkeypatch.setattr("services.gateway.key_limits.STORAGE_TIMEOUT_S", 0.01)
    allowances = Allowances(storage)
    alice = caller(requests_per_minute=1, tokens_per_minute=1, concurrent_requests=1)
    for _ in range(3):
        assert await used(allowances, alice, 5) == {}
    await allowances.admit(alice)
    assert "at a time" in (await refusal(allowances, alice)).error.message


@pytest.mark.parametrize("url", ["", "nothing", "memory://", "ftp://x", "redis://localhost", "async+redis+cluster://"])
def test_a_storage_that_cannot_be_used_is_an_error_of_the_configuration(url):
    with pytest.raises(ConfigError, match=r"gateway\.key_limits\.storage"):
        Allowances(url)


def test_the_default_storage():
    Allowances("async+memory://")
