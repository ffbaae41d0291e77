"""The arithmetic of a sliding minute, against the library's own storage."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.rate_window import Rate, Window
from tests.support.rate_clock import RateClock


@pytest.mark.parametrize(
    ("window", "remaining", "room_in_s", "empty_in_s"),
    [
        (Window(10, 0, 0, 0, 0), 10, 0, 0),
        (Window(10, 0, 0, 4, 30), 6, 0, 30 + 60 * 3 / 4),
        (Window(10, 0, 0, 10, 30), 0, 30, 30 + 60 * 9 / 10),
        (Window(10, 0, 0, 40, 30), 0, 30 + 60 * 3 / 4, 30 + 60 * 39 / 40),
        (Window(10, 10, 60, 0, 60), 0, 0, 54),
        (Window(10, 20, 60, 0, 60), 0, 30, 57),
        (Window(10, 20, 30, 5, 30), 0, 15, 30 + 60 * 4 / 5),
    ],
)
def test_what_is_left_and_when_there_is_more(window, remaining, room_in_s, empty_in_s):
    assert window.remaining == remaining
    assert window.room_in_s == pytest.approx(room_in_s, abs=0.002)
    assert window.empty_in_s == pytest.approx(empty_in_s, abs=0.002)


@given(
    limit=st.integers(1, 50),
    uses=st.lists(st.tuples(st.floats(0, 70), st.integers(1, 200), st.booleans()), min_size=1, max_size=12),
)
def test_after_the_time_told_there_is_room_and_shortly_before_there_is_none(limit, uses):
    with pytest.MonkeyPatch.context() as patch:
        clock = RateClock(patch)

        async def check():
            rate = Rate(clock.storage, "tokens")
            for pause_s, amount, is_checked in uses:
                clock.now_s += pause_s
                await (rate.take("t", limit, min(amount, limit)) if is_checked else rate.add("t", amount))
            window = await rate.window("t", limit)
            began_s = clock.now_s
            if window.room_in_s > 0.01:
                clock.now_s = began_s + window.room_in_s - 0.01
                assert not await rate.take("t", limit)
            clock.now_s = began_s + math.ceil(window.room_in_s)
            assert (await rate.window("t", limit)).remaining > 0
            assert await rate.take("t", limit)
            clock.now_s = began_s + 200
            assert (await rate.window("t", limit)).remaining == limit

        asyncio.run(check())


async def test_who_keeps_asking_has_one_minutes_worth_at_once_and_then_the_rate(monkeypatch):
    clock = RateClock(monkeypatch)
    rate = Rate(clock.storage, "requests")
    taken = 0
    for _ in range(10 * 600):
        clock.now_s += 0.1
        taken += await rate.take("t", 10)
    assert 95 <= taken <= 110


async def test_keys_and_kinds_are_counted_apart(monkeypatch):
    clock = RateClock(monkeypatch)
    requests, tokens = Rate(clock.storage, "requests"), Rate(clock.storage, "tokens")
    assert await requests.take("a", 1)
    assert not await requests.take("a", 1)
    assert await requests.take("b", 1)
    assert await tokens.take("a", 1)
