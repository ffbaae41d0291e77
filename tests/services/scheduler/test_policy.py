from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler import policy
from shared import config
from tests.services.scheduler.toy_tree import Waiter

WAITERS = [
    Waiter(1, max_new_tokens=7, hint_tokens=0),
    Waiter(2, max_new_tokens=9, hint_tokens=50),
    Waiter(3, max_new_tokens=9, hint_tokens=80),
    Waiter(4, max_new_tokens=1, hint_tokens=80),
]


def ranked(key, waiters=WAITERS):
    return [waiter.order for waiter in sorted(waiters, key=key)]


def test_every_policy_that_can_be_configured_is_there():
    assert set(policy.POLICIES) == set(get_args(config.Policy))


def test_each_key_prefers_what_it_is_named_for_and_then_the_oldest():
    assert ranked(policy.arrival) == [1, 2, 3, 4]
    assert ranked(policy.longest_prefix) == [3, 4, 2, 1]
    assert ranked(policy.longest_output) == [2, 3, 1, 4]


def test_a_few_tokens_more_in_the_cache_are_no_reason_to_go_first():
    by_chance = [Waiter(order, hint_tokens=hint) for order, hint in enumerate((24, 25, 24, 27, 31))]
    assert ranked(policy.longest_prefix, by_chance) == [0, 1, 2, 3, 4]
    assert ranked(policy.longest_prefix, [*by_chance, Waiter(5, hint_tokens=24 + policy.GAIN_TOKENS)])[0] == 5


def test_the_policies_by_name():
    keys = {name: policy.POLICIES[name].key for name in ("lpm", "fcfs", "priority", "lof")}
    assert keys == {
        "lpm": policy.longest_prefix,
        "fcfs": policy.arrival,
        "priority": policy.arrival,
        "lof": policy.longest_output,
    }
    assert [name for name, each in policy.POLICIES.items() if not each.ranked] == ["fcfs"]
    assert [name for name, each in policy.POLICIES.items() if each.depth_first] == ["dfs-weight"]


def test_seniority_goes_by_priority_then_arrival():
    waiters = [Waiter(1), Waiter(2, hint_tokens=9), Waiter(3, priority=1), Waiter(4, priority=-1)]
    assert ranked(policy.seniority, waiters) == [3, 1, 2, 4]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_no_key_leaves_it_open_who_of_two_goes_first(drawn):
    waiters = [Waiter(n, hint_tokens=hint, max_new_tokens=new) for n, (hint, new) in enumerate(drawn)]
    for each in policy.POLICIES.values():
        assert len({each.key(waiter) for waiter in waiters}) == len(waiters)
