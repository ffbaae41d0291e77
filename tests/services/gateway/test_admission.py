"""Who is let in to the gateway, and what the others are told."""

import heapq
import math

import pytest

from services.gateway.admission import HOLD_S, LONGEST_S, Admission
from shared import wire

FULL = wire.Error("so many wait already", "overloaded", status=429, retry_after_s=0.25)
NOW_S = 100.0


def test_without_keys_all_room_is_everybodys():
    admission = Admission(max_open=4)
    admission.opened("", 3, NOW_S)
    assert admission.refusal("", 1, NOW_S) is None
    assert admission.refusal("", 2, NOW_S).code == "overloaded"
    admission.ended("", NOW_S)
    assert admission.refusal("", 2, NOW_S) is None


def test_a_tenant_leaves_a_little_room_for_others():
    admission = Admission(max_open=8)
    assert admission.refusal("a", 7, NOW_S) is None
    admission.opened("a", 7, NOW_S)
    assert admission.refusal("a", 1, NOW_S).status == 429
    assert admission.refusal("b", 1, NOW_S) is None


def test_its_own_refusal_says_when_there_will_be_room():
    admission = Admission(max_open=8)
    admission.opened("", 8, NOW_S)
    assert admission.refusal("", 1, NOW_S + 1).retry_after_s == 1.0  # nothing is known
    for at_s in (NOW_S + 4, NOW_S + 8):
        admission.ended("", at_s)
        admission.opened("", 1, at_s)
    assert [admission.refusal("", 2, NOW_S + 8).retry_after_s for _ in range(2)] == [8.0, 8.0]
    assert [admission.refusal("", 1, NOW_S + 8).retry_after_s for _ in range(2)] == [4.0, 8.0]


def test_what_the_scheduler_has_no_room_for_is_refused_at_once_for_a_moment():
    admission = Admission(max_open=100)
    assert admission.refused("a", 1, FULL, NOW_S).retry_after_s == 0.25
    assert admission.refusal("a", 1, NOW_S + 0.2).message == FULL.message
    assert admission.refusal("b", 1, NOW_S + 0.2) is None
    assert admission.refusal("a", 1, NOW_S + 0.26) is None


def test_the_moment_is_short_however_long_the_client_has_to_wait():
    admission = Admission(max_open=100)
    admission.refused("a", 1, wire.Error("full", "overloaded", status=429, retry_after_s=30.0), NOW_S)
    assert admission.refusal("a", 1, NOW_S + HOLD_S - 0.01) is not None
    assert admission.refusal("a", 1, NOW_S + HOLD_S + 0.01) is None


def test_other_refusals_of_the_scheduler_say_nothing_about_the_next():
    admission = Admission(max_open=100)
    for error in (wire.Error("too long"), wire.Error("late", "deadline_unreachable", status=429, retry_after_s=3.0)):
        assert admission.refused("a", 1, error, NOW_S) == error
    assert admission.refusal("a", 1, NOW_S) is None


def test_those_refused_come_back_one_after_the_other():
    admission = Admission(max_open=100)
    told = [admission.refused("a", 1, FULL, NOW_S).retry_after_s]
    told += [admission.refusal("a", 1, NOW_S + 0.1).retry_after_s for _ in range(3)]
    assert told == pytest.approx([0.25, 0.4, 0.65, 0.9])
    assert admission.refused("b", 1, FULL, NOW_S + 0.1).retry_after_s == 0.25


@pytest.mark.parametrize("turn_s", [2.0, 20.0])
def test_there_is_a_longest_time(turn_s):
    admission = Admission(max_open=100)
    full = wire.Error("full", "overloaded", status=429, retry_after_s=turn_s)
    told = [admission.refused("a", 1, full, NOW_S).retry_after_s for _ in range(40)]
    assert told[-1] == LONGEST_S


def test_a_request_that_fills_the_queue_itself_holds_up_no_other():
    admission = Admission(max_open=100)
    assert {admission.refused("a", 8, FULL, NOW_S).retry_after_s for _ in range(5)} == {0.25 * 8}
    assert admission.refusal("a", 1, NOW_S) is None
    assert admission.refused("a", 1, FULL, NOW_S).retry_after_s == 0.25
    assert admission.refused("a", 1000, FULL, NOW_S).retry_after_s == LONGEST_S


@pytest.mark.parametrize("every_s", [0.05, 0.2])
def test_of_many_at_once_each_gets_in_when_told_or_the_next_time(every_s):
    clients, places = 300, 80
    returns = come_back_as_told(clients, places, every_s)
    assert len(returns) == clients
    assert max(returns.values()) <= 2


def come_back_as_told(clients, places, every_s):
    """How often each of them has come back, when it gets in. One place becomes free every so many seconds."""
    admission, returns, started = Admission(max_open=places), {}, 0
    callers = [(NOW_S, number, 0) for number in range(clients)]
    while callers:
        now_s, number, count = heapq.heappop(callers)
        while NOW_S + (started + 1) * every_s <= now_s and admission.open:
            started += 1
            admission.ended("", NOW_S + started * every_s)
        refusal = admission.refusal("", 1, now_s)
        if refusal is None:
            admission.opened("", 1, now_s)
            returns[number] = count
        else:
            heapq.heappush(callers, (now_s + math.ceil(refusal.retry_after_s), number, count + 1))
    return returns
