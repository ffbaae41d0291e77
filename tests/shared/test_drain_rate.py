"""Estimates of when there will be room."""

import pytest

from shared.drain_rate import WINDOW_LEAVINGS, WINDOW_S, DrainRate


def drained(count, every_s, tokens=10):
    """So many have left, one every so many seconds, from time 100 on."""
    drain = DrainRate()
    drain.restart(100.0)
    for number in range(1, count + 1):
        drain.left(100.0 + number * every_s, tokens)
    return drain


def test_it_is_as_fast_as_it_has_been():
    drain = drained(count=10, every_s=2.0)
    assert drain.wait_s(120.0, requests=3) == 6.0
    assert drain.wait_s(120.0, tokens=25) == 5.0
    assert drain.wait_s(120.0, requests=3, tokens=40) == 8.0


def test_a_standstill_counts():
    assert drained(count=5, every_s=1.0).wait_s(110.0, requests=1) == 2.0


def test_nothing_is_known_before_anything_has_left():
    drain = DrainRate()
    assert drain.wait_s(100.0, requests=1) is None
    drain.restart(100.0)
    assert drain.wait_s(101.0, requests=1) is None
    assert drain.guess_s(104.0) == 4.0
    drain.left(105.0)
    assert drain.wait_s(105.0, requests=1) == 5.0
    assert drain.wait_s(105.0, tokens=1) is None
    assert drain.guess_s(106.0) == 1.0


def test_only_the_last_moments_count():
    drain = drained(count=10, every_s=1.0)
    assert drain.wait_s(110.0 + WINDOW_S, requests=1) == pytest.approx(WINDOW_S)
    assert drain.wait_s(110.5 + WINDOW_S, requests=1) is None


def test_the_time_in_which_nobody_waited_does_not_count():
    drain = drained(count=10, every_s=1.0)
    drain.restart(115.0)
    assert drain.wait_s(116.0, requests=1) is None
    drain.left(116.0)
    assert drain.wait_s(116.0, requests=2) == 2.0


def test_it_remembers_only_so_many():
    drain = drained(count=4 * WINDOW_LEAVINGS, every_s=0.01)
    now_s = 100.0 + 4 * WINDOW_LEAVINGS * 0.01
    assert drain.wait_s(now_s, requests=1) == pytest.approx(0.01, rel=0.02)
