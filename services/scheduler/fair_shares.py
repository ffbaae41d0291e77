"""Which tenants may start requests now, so that each gets its share of what is computed while all have work.

Knows balances of tokens by tenant. Does not know requests or their order: among those that may start, the policy
decides, and so it stays free to go by the cache for a quantum. This is the deficit rule of Cao et al., "Locality-aware
Fair Scheduling in LLM Serving" (2025). Balances count against each other alone:

    - Those with something left may start. When none of those that wait has, everybody is given the same.
    - Nobody saves up more than a quantum, and who has as much is not remembered.
    - Who is alone takes nothing from anybody, and owes nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from shared.invariant import require


class FairShares:
    """Args:
    quantum_tokens: what each tenant may compute before the others have their turn.
    """

    def __init__(self, quantum_tokens: int) -> None:
        if quantum_tokens <= 0:
            raise ValueError(f"a quantum of {quantum_tokens} tokens is no share")
        self.quantum_tokens = quantum_tokens
        self._balances: dict[str, int] = {}  # less than a quantum; who is not here has one
        self._open: Counter[str] = Counter()  # requests that wait or run

    @property
    def remembered(self) -> int:
        """Tenants."""
        return len(self._balances.keys() | self._open.keys())

    def enter(self, tenant: str) -> None:
        """It has one more request that waits or runs."""
        self._open[tenant] += 1

    def leave(self, tenant: str) -> None:
        """One of its requests is over. Raises KeyError if it has none."""
        if tenant not in self._open:
            raise KeyError(tenant)
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]

    def is_alone(self) -> bool:
        """Whether no two tenants have requests that wait or run."""
        return len(self._open) < 2

    @property
    def open_tenants(self) -> int:
        """Those that have requests that wait or run."""
        return len(self._open)

    @property
    def all_open_requests(self) -> int:
        return self._open.total()

    def open_requests(self, tenant: str) -> int:
        return self._open[tenant]

    def balance(self, tenant: str) -> int:
        return self._balances.get(tenant, self.quantum_tokens)

    def charge(self, tenant: str, tokens: int) -> None:
        """So many tokens are computed for it."""
        if tokens < 0:
            raise ValueError(f"{tokens} tokens cannot be charged")
        balance = self.balance(tenant)
        least = min(balance, 0) if self._open.keys() == {tenant} else balance - tokens
        self._set(tenant, max(balance - tokens, least))

    def eligible(self, tenants: Collection[str]) -> set[str]:
        """Those of the tenants, who all have something waiting, that may start a request now: at least one of them."""
        if not tenants:
            return set()
        best = max(self.balance(tenant) for tenant in tenants)
        if best <= 0:
            self._give(-best // self.quantum_tokens + 1)
        return {tenant for tenant in tenants if self.balance(tenant) > 0}

    def _give(self, quanta: int) -> None:
        for tenant, balance in list(self._balances.items()):
            self._set(tenant, balance + quanta * self.quantum_tokens)

    def _set(self, tenant: str, balance: int) -> None:
        if balance < self.quantum_tokens:
            self._balances[tenant] = balance
        else:
            self._balances.pop(tenant, None)

    def check_integrity(self) -> None:
        """Raises BrokenInvariant with what is wrong."""
        saved = max(self._balances.values(), default=0)
        require(saved < self.quantum_tokens, f"a tenant has saved {saved} tokens")
        require(all(count > 0 for count in self._open.values()), "a tenant is remembered for no request")
