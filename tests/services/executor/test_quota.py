from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.eviction import least_recently_used
from services.executor.quota import Accounts


def accounts(kept_tokens: int = 100, page_size: int = 1, **tenants: tuple[int, int]) -> Accounts:
    """tenant=(pinned, evictable)"""
    made = Accounts(least_recently_used, kept_tokens=kept_tokens, page_size=page_size)
    for tenant, (pinned, evictable) in tenants.items():
        made.open(tenant)
        made.of(tenant).pinned_tokens, made.of(tenant).evictable_tokens = pinned, evictable
    return made


def limits(made: Accounts, tenant: str) -> dict[str, int]:
    return {account.tenant: tokens for account, tokens in made.limits(tenant).items()}


def quotas(made: Accounts) -> dict[str, int]:
    return {account.tenant: tokens for account, tokens in made.quotas().items()}


@pytest.mark.parametrize(("count", "page_size", "quota"), [(1, 1, 50), (2, 1, 50), (3, 1, 33), (3, 16, 32)])
def test_quotas_are_equal_parts_in_whole_pages(count: int, page_size: int, quota: int) -> None:
    made = accounts(page_size=page_size, **{f"tenant-{number}": (0, 0) for number in range(count)})
    assert set(quotas(made).values()) == {quota}


@pytest.mark.parametrize(
    ("tenants", "expected"),
    [
        (["a*4"], {"a*4": 80}),
        (["a*4", "b"], {"a*4": 80, "b": 20}),
        (["a*3", "b*2", "c"], {"a*3": 50, "b*2": 33, "c": 16}),
        (["a*0"], {"a*0": 0}),
        (["a*0", "b"], {"a*0": 0, "b": 50}),
    ],
)
def test_who_counts_for_several_has_as_many_parts(tenants: list[str], expected: dict[str, int]) -> None:
    assert quotas(accounts(**dict.fromkeys(tenants, (0, 0)))) == expected


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 20), st.sampled_from([1, 16]))
def test_whoever_begins_lowers_quotas_that_fit_together(weights: list[int], newcomer: int, page_size: int) -> None:
    made = accounts(1000, page_size, **{f"{number}*{weight}": (0, 0) for number, weight in enumerate(weights)})
    before = quotas(made)
    made.open(f"new*{newcomer}")
    after = quotas(made)
    assert sum(after.values()) <= 1000
    assert all(after[tenant] <= quota for tenant, quota in before.items())


def test_what_others_take_leaves_a_weighted_quota() -> None:
    made = accounts(**{"a*4": (0, 100), "b": (0, 100)})
    assert limits(made, "b") == {"a*4": 20, "b": 100}
    assert limits(made, "a*4") == {"a*4": 100, "b": 80}


def test_divisions_do_not_have_quotas_of_their_own() -> None:
    made = accounts()
    for namespace in ("a", "a/one", "a/two", "b"):
        made.open(namespace)
    assert made.of("a/one") is made.of("a")
    assert quotas(made) == {"a": 50, "b": 50}
    for namespace in ("a", "a/two"):
        made.close(namespace)
    made.of("a/one").evictable_tokens = 5
    assert made.protected() == {"a": 5}
    made.close("a/one")
    assert [account.tenant for account in made] == ["b"]


@pytest.mark.parametrize(
    ("pinned", "evictable", "protected"),
    [(0, 30, 30), (0, 80, 50), (30, 10, 10), (30, 80, 20), (50, 80, 0), (90, 10, 0), (20, 0, 0)],
)
def test_what_is_pinned_counts_towards_the_quota(pinned: int, evictable: int, protected: int) -> None:
    made = accounts(a=(pinned, evictable), b=(0, 0))
    assert made.protected() == ({"a": protected} if protected else {})
    assert limits(made, "b") == {"a": evictable - protected, "b": 0}
    assert limits(made, "a") == {"a": evictable, "b": 0}


def test_a_tenant_that_has_nothing_yet_finds_the_quotas_as_they_are() -> None:
    made = accounts(a=(0, 80), b=(10, 90))
    assert limits(made, "new") == {"a": 30, "b": 50}
    made.open("new")
    assert limits(made, "new") == {"a": 47, "b": 67, "new": 0}


def test_without_limits_all_that_is_idle_can_go() -> None:
    made = accounts(a=(10, 80), b=(10, 90))
    assert sorted(made.no_limits().values()) == [80, 90]
