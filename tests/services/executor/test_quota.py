from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(("count", "page_size", "quota"), [(0, 1, 50), (1, 1, 50), (2, 1, 50), (3, 1, 33), (3, 16, 32)])
def test_quotas_are_equal_parts_in_whole_pages(count: int, page_size: int, quota: int) -> None:
    made = accounts(page_size=page_size, **{f"tenant-{number}": (0, 0) for number in range(count)})
    assert made.quota_tokens == quota


def test_divisions_do_not_have_quotas_of_their_own() -> None:
    made = accounts()
    for namespace in ("a", "a/one", "a/two", "b"):
        made.open(namespace)
    assert made.of("a/one") is made.of("a")
    assert made.quota_tokens == 50
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
