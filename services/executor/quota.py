"""What each tenant has in the prefix cache, and how much of it the others must leave there.

Knows sums of tokens by tenant. Does not know requests or the tree.

A part of the pool is kept for the tenants, in quotas by their weights: equal ones, unless some count for several. A
tenant counts while it has anything in the tree, or a request that has begun; a single one has the quota that it would
have beside another of weight 1. So whoever begins can only lower the quotas, and make more room than was said. For a
request of a tenant, its own idle leaves can be evicted, and those of the others as far as they have more cached, pinned
or not, than their quotas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from services.executor.eviction import Leaves, Policy
from shared.namespaces import tenant_of, weight_of
from shared.tokens import pages_down

QUOTA = 0.5  # of the pool


@dataclass(eq=False, slots=True)
class Account:
    tenant: str
    leaves: Leaves
    namespaces: set[str] = field(default_factory=set)
    pinned_tokens: int = 0  # in the tree
    evictable_tokens: int = 0
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        self.weight = weight_of(self.tenant)

    @property
    def cached_tokens(self) -> int:
        return self.pinned_tokens + self.evictable_tokens


class Accounts:
    """Args:
    kept_tokens: what is kept for the tenants, all together.
    page_size: quotas are whole pages.
    """

    def __init__(self, policy: Policy, *, kept_tokens: int, page_size: int) -> None:
        self._policy = policy
        self._kept_tokens = kept_tokens
        self._page_size = page_size
        self._by_tenant: dict[str, Account] = {}
        self._by_namespace: dict[str, Account] = {}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_tenant.values())

    def open(self, namespace: str) -> None:
        """The namespace has come into the tree."""
        tenant = tenant_of(namespace)
        account = self._by_tenant.get(tenant)
        if account is None:
            account = self._by_tenant[tenant] = Account(tenant, Leaves(self._policy))
        account.namespaces.add(namespace)
        self._by_namespace[namespace] = account

    def close(self, namespace: str) -> None:
        """Nothing of the namespace is left."""
        account = self._by_namespace.pop(namespace)
        account.namespaces.remove(namespace)
        if not account.namespaces:
            del self._by_tenant[account.tenant]

    def of(self, namespace: str) -> Account:
        return self._by_namespace[namespace]

    def quotas(self) -> dict[Account, int]:
        total = sum(account.weight for account in self)
        return {
            account: pages_down(self._kept_tokens * account.weight // max(total, account.weight + 1), self._page_size)
            for account in self
        }

    def protected(self) -> dict[str, int]:
        """By tenant: of its evictable tokens, how many the others cannot have. Only those who have any."""
        protected = {account.tenant: _protected(account, quota) for account, quota in self.quotas().items()}
        return {tenant: tokens for tenant, tokens in protected.items() if tokens}

    def limits(self, tenant: str) -> dict[Account, int]:
        """How much can be evicted of each account for a request of this tenant."""
        return {
            account: account.evictable_tokens - (0 if account.tenant == tenant else _protected(account, quota))
            for account, quota in self.quotas().items()
        }

    def no_limits(self) -> dict[Account, int]:
        return {account: account.evictable_tokens for account in self}


def _protected(account: Account, quota_tokens: int) -> int:
    return max(0, min(quota_tokens, account.cached_tokens) - account.pinned_tokens)
