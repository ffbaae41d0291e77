from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler import policy


@dataclass(frozen=True)
class Candidate:
    order: int
    priority: int = 0
    arrived_s: float = 0.0
    hint_tokens: int = 0


@dataclass(frozen=True)
class Worker:
    running_requests: int


def ranked(order, candidates, now_s=0.0, max_wait_s=30.0):
    return [c.order for c in sorted(candidates, key=lambda c: order(c, now_s, max_wait_s))]


def test_fcfs_goes_by_priority_then_arrival():
    candidates = [Candidate(1), Candidate(2, hint_tokens=9), Candidate(3, priority=1), Candidate(4, priority=-1)]
    assert ranked(policy.fcfs, candidates) == [3, 1, 2, 4]


def test_lpm_goes_by_the_longest_cached_prefix_within_a_priority():
    candidates = [Candidate(1), Candidate(2, hint_tokens=9), Candidate(3, hint_tokens=9), Candidate(4, priority=1)]
    assert ranked(policy.lpm, candidates) == [4, 2, 3, 1]


def test_lpm_puts_those_that_waited_long_enough_first_the_oldest_of_them_before_all():
    candidates = [
        Candidate(1, arrived_s=0.0),
        Candidate(2, arrived_s=1.0, hint_tokens=50),
        Candidate(3, arrived_s=5.0, hint_tokens=90),
        Candidate(4, arrived_s=9.0, hint_tokens=100),
    ]
    assert ranked(policy.lpm, candidates, now_s=10.0, max_wait_s=9.0) == [1, 2, 4, 3]


def test_no_wait_lifts_a_request_above_a_higher_priority():
    assert ranked(policy.lpm, [Candidate(1), Candidate(2, priority=1, arrived_s=99.0)], now_s=100.0) == [2, 1]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100), st.integers(0, 50)), max_size=30), st.integers(0, 100)
)
def test_every_order_is_total_and_strict_in_priority(drawn, now_s):
    candidates = [Candidate(n, priority, float(since), hint) for n, (priority, since, hint) in enumerate(drawn)]
    for order in policy.ORDERS.values():
        keys = [order(candidate, float(now_s), 30.0) for candidate in candidates]
        assert len(set(keys)) == len(keys)
        by_key = sorted(candidates, key=lambda candidate: order(candidate, float(now_s), 30.0))
        assert [c.priority for c in by_key] == sorted((c.priority for c in candidates), reverse=True)


def test_work_is_offered_to_the_least_loaded_first():
    assert policy.by_load([Worker(2), Worker(0), Worker(1)]) == [Worker(0), Worker(1), Worker(2)]
