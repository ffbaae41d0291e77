"""The cache against its definition, a dictionary of prefixes, under whatever can happen to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.executor.nodes import Node, Use
from services.executor.radix_cache import CHEAP_FACTOR, DEAR_PARTS, RadixCache
from services.executor.slots import SlotAllocator, Slots
from shared.config import EvictionPolicy
from shared.namespaces import tenant_of
from tests.support.tree_replica import Prefix, Replica, copy_of

TENANTS = ("a", "b", "c", "who has not come yet")
NAMESPACES = ("a", "a/division", "b", "c")
POLICIES: tuple[EvictionPolicy, ...] = ("lru", "lfu", "priority")


def ids(tokens: Sequence[int]) -> np.ndarray:
    return np.array(tokens, np.int64)


@dataclass(eq=False)
class Request:
    """A running request as the model sees it: tokens [0, shared) are in the tree, `private` slots follow them."""

    namespace: str
    tokens: tuple[int, ...]
    use: Use
    shared: int
    node: Node
    private: Slots

    def __repr__(self) -> str:
        return f"<{self.namespace!r} {self.tokens} shared {self.shared} {self.use}>"


@dataclass
class Cached:
    """The last page of a cached prefix."""

    slots: list[int]
    priority: int
    is_cheap: bool
    hits: int = 0
    last_used: int = 0

    def find(self, use: Use) -> None:
        """Another request uses it."""
        self.hits += 1
        self.priority = max(self.priority, use.priority)
        self.is_cheap = False


class CacheMachine(RuleBasedStateMachine):
    """For every cached prefix of whole pages: its last page's slots and what the policies look at."""

    page_size = 1

    @initialize(
        pages=st.integers(5, 30),
        policy=st.sampled_from(POLICIES),
        quota=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        ahead=st.integers(0, 3),
    )
    def start(self, pages: int, policy: EvictionPolicy, quota: float, ahead: int) -> None:
        self.capacity = pages * self.page_size
        self.policy, self.quota, self.ahead = policy, quota, ahead
        self.pool = SlotAllocator(self.capacity, self.page_size)
        self.cache = RadixCache(self.pool, policy=policy, quota=quota)
        self.replica = Replica()
        self.model: dict[Prefix, Cached] = {}
        self.requests: list[Request] = []
        self.texts: list[tuple[int, ...]] = [()]  # what requests went through
        self.now = 0

    # What the model knows.

    def prefixes(self, namespace: str, tokens: Sequence[int]) -> list[Prefix]:
        ends = range(self.page_size, len(tokens) + 1, self.page_size)
        return [(namespace, tuple(tokens[:end])) for end in ends]

    def pinned(self) -> set[Prefix]:
        running = [self.prefixes(request.namespace, request.tokens[: request.shared]) for request in self.requests]
        return {prefix for prefixes in running for prefix in prefixes}

    def cached_tokens(self) -> int:
        return len(self.model) * self.page_size

    def pinned_tokens(self) -> int:
        return len(self.pinned()) * self.page_size

    def free_tokens(self) -> int:
        return self.capacity - self.cached_tokens() - sum(len(request.private) for request in self.requests)

    def longest(self, namespace: str, tokens: Sequence[int]) -> int:
        """Length of the longest cached prefix, at least one token short of all."""
        found = [prefix for prefix in self.prefixes(namespace, tokens[:-1]) if prefix in self.model]
        return len(found) * self.page_size

    def touch(self, namespace: str, tokens: Sequence[int]) -> None:
        self.now += 1
        for prefix in self.prefixes(namespace, tokens):
            self.model[prefix].last_used = self.now

    def slots(self, namespace: str, tokens: Sequence[int]) -> list[int]:
        return [slot for prefix in self.prefixes(namespace, tokens) for slot in self.model[prefix].slots]

    def limits(self, tenant: str | None) -> dict[str, int]:
        """By tenant: what can be evicted for this one; for None, whatever is idle."""
        present = {tenant_of(namespace) for namespace, _ in self.model}
        present |= {tenant_of(request.namespace) for request in self.requests}
        quota = int(self.quota * self.capacity) // max(2, len(present)) // self.page_size * self.page_size
        pinned, limits = self.pinned(), {}
        for owner in present:
            own = {prefix for prefix in self.model if tenant_of(prefix[0]) == owner}
            idle, cached = len(own - pinned) * self.page_size, len(own) * self.page_size
            limits[owner] = idle if tenant in (None, owner) else min(idle, max(0, cached - quota))
        return limits

    def rank(self, prefix: Prefix) -> tuple[bool, int, int]:
        page = self.model[prefix]
        worth = {"lru": 0, "lfu": page.hits, "priority": page.priority}[self.policy]
        return not page.is_cheap, worth, page.last_used

    def age(self, prefix: Prefix) -> tuple[bool, int]:
        """All that counts between tenants."""
        return not self.model[prefix].is_cheap, self.model[prefix].last_used

    def evict(self, tokens: int, limits: dict[str, int]) -> None:
        pinned = self.pinned()
        for _ in range(tokens // self.page_size):
            parents = {(namespace, tokens[: -self.page_size]) for namespace, tokens in self.model}
            idle = [prefix for prefix in self.model if prefix not in pinned and prefix not in parents]
            firsts = [
                min((prefix for prefix in idle if tenant_of(prefix[0]) == owner), key=self.rank)
                for owner, limit in limits.items()
                if limit
            ]
            chosen = min(firsts, key=self.age)
            limits[tenant_of(chosen[0])] -= self.page_size
            del self.model[chosen]

    # What can happen.

    namespaces = st.sampled_from(NAMESPACES)
    uses = st.builds(Use, st.integers(0, 2), st.booleans())
    endings = st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.integers(0, 15))

    def text(self, ending: tuple[list[int], int]) -> list[int]:
        """Some pages that others may have too, and a part of one."""
        pages, rest = ending
        return [token for token in pages for _ in range(self.page_size)] + [0] * (rest % self.page_size)

    @rule(data=st.data(), namespace=namespaces, ending=endings, use=uses)
    def run_whole(self, data: st.DataObject, namespace: str, ending: tuple[list[int], int], use: Use) -> None:
        """A request from start to end."""
        request = self.begin(data, namespace, ending, use)
        for is_lone in (False, True):
            self.compute(request, self.text(ending), is_lone)
            self.hand_over(request)
        self.end(request, True)

    @rule(data=st.data(), namespace=namespaces, ending=endings, use=uses)
    def begin_one(self, data: st.DataObject, namespace: str, ending: tuple[list[int], int], use: Use) -> None:
        self.begin(data, namespace, ending, use)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), ending=endings, is_shared=st.booleans(), is_lone=st.booleans())
    def compute_some(self, data: st.DataObject, ending: tuple[list[int], int], is_shared: bool, is_lone: bool) -> None:
        """Some more tokens of a request, and perhaps whole pages handed over."""
        request = data.draw(st.sampled_from(self.requests))
        if self.compute(request, self.text(ending), is_lone) and is_shared:
            self.hand_over(request)

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), is_shared=st.booleans())
    def end_one(self, data: st.DataObject, is_shared: bool) -> None:
        """Finish, abort, preempt: they are one to the cache."""
        self.end(data.draw(st.sampled_from(self.requests)), is_shared)

    @rule(pages=st.integers(1, 6), tenant=st.sampled_from([None, *TENANTS]))
    def evict_some(self, pages: int, tenant: str | None) -> None:
        slots = self.allocate(self.free_tokens() + pages * self.page_size, tenant)
        if slots is not None:
            self.cache.free(slots)

    @rule(is_sure=st.sampled_from([True] + 7 * [False]))
    def flush(self, is_sure: bool) -> None:
        if is_sure:
            assert self.cache.flush() == self.cached_tokens() - self.pinned_tokens()
            self.model = {prefix: self.model[prefix] for prefix in self.pinned()}

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        self.cache.seal(data.draw(st.sampled_from(self.requests)).node)

    @rule()
    def copy_anew(self) -> None:
        self.cache.take_events()
        self.replica = copy_of(self.cache)

    # How the model follows.

    def begin(self, data: st.DataObject, namespace: str, ending: tuple[list[int], int], use: Use) -> Request:
        """A prompt that goes on from some text so far."""
        tokens = [*data.draw(st.sampled_from(self.texts)), *self.text(ending)]
        found = self.longest(namespace, tokens)
        assert self.cache.match(namespace, ids(tokens)) == found
        held = self.cache.pin(namespace, ids(tokens), use)
        assert held.slots.tolist() == self.slots(namespace, tokens[:found])
        self.touch(namespace, tokens[:found])
        for prefix in self.prefixes(namespace, tokens[:found]):
            self.model[prefix].find(use)
        request = Request(namespace, tuple(tokens[:found]), use, found, held.node, held.slots[:0])
        self.requests.append(request)
        return request

    def compute(self, request: Request, tokens: list[int], is_lone: bool) -> bool:
        """False, and nothing happens, if there are no slots for them."""
        total = len(request.tokens) + len(tokens)
        missing = -(-total // self.page_size) * self.page_size - request.shared - len(request.private)
        after = int(request.private[-1]) if len(request.private) else None
        slots = self.allocate(missing, tenant_of(request.namespace), after, is_alone=is_lone)
        if slots is None:
            return False
        request.tokens += tuple(tokens)
        request.private = np.concatenate((request.private, slots))
        self.texts.append(request.tokens)
        return True

    def end(self, request: Request, is_shared: bool) -> None:
        if is_shared:
            self.hand_over(request)
        self.requests.remove(request)
        self.touch(request.namespace, request.tokens[: request.shared])
        self.cache.unpin(request.node)
        self.cache.free(request.private)

    def allocate(
        self, tokens: int, tenant: str | None, after: int | None = None, *, is_alone: bool = False
    ) -> Slots | None:
        free, limits = self.free_tokens(), self.limits(tenant)
        most = sum(self.limits(None if is_alone else tenant).values())
        claimed = self.pool.free_tokens - self.pool.unclaimed_tokens
        before, ahead = self.cache.evicted_tokens, self.ahead * self.page_size
        slots = self.cache.allocate(tokens, after, tenant, ahead, is_alone=is_alone)
        assert (slots is None) == (tokens > free + most)
        evicted = self.cache.evicted_tokens - before
        if slots is None:
            assert not evicted
            return None
        spare = CHEAP_FACTOR * (tokens + ahead) + self.capacity // DEAR_PARTS
        assert tokens - free <= evicted <= max(tokens - free, 0) + claimed + spare
        within = min(evicted, sum(limits.values()))
        self.evict(within, limits)
        self.evict(evicted - within, self.limits(None))
        return slots

    def hand_over(self, request: Request) -> None:
        start, end = request.shared, len(request.tokens) // self.page_size * self.page_size
        given, private = request.private[: end - start], request.private[end - start :]
        splits = len(request.tokens) % 2 == 0
        held = self.cache.extend(request.node, ids(request.tokens[start:end]), given, request.use, splits=splits)
        taken = len(held.slots)
        if taken < len(given):
            assert not splits
            assert self.prefixes(request.namespace, request.tokens[:end])[-1] in self.model, "it is there already"
        given, private, end = given[:taken], np.concatenate((given[taken:], private)), start + taken
        pages = given.reshape(-1, self.page_size).tolist()
        new = self.prefixes(request.namespace, request.tokens[:end])[start // self.page_size :]
        for prefix, page in zip(new, pages, strict=True):
            if prefix in self.model:
                self.model[prefix].find(request.use)
            else:
                self.model[prefix] = Cached(page, request.use.priority, request.use.is_cheap)
        assert held.slots.tolist() == self.slots(request.namespace, request.tokens)[start:end]
        request.node, request.private, request.shared = held.node, private, end

    # What must hold.

    @invariant()
    def everything_adds_up(self) -> None:
        self.cache.check_integrity([(request.node, request.private) for request in self.requests])
        assert self.cache.pinned_tokens == self.pinned_tokens()
        assert self.cache.cached_tokens == self.cached_tokens()

    @invariant()
    def what_is_said_to_be_protected_is_what_others_cannot_have(self) -> None:
        protected = self.cache.protected_tokens()
        for tenant in TENANTS:
            others = sum(tokens for owner, tokens in protected.items() if owner != tenant)
            assert self.cache.evictable_tokens - others == sum(self.limits(tenant).values())

    @invariant()
    def a_copy_made_of_its_events_is_the_tree(self) -> None:
        self.replica.apply(self.cache.take_events())
        assert self.replica.nodes == copy_of(self.cache).nodes
        assert self.replica.prefixes(self.page_size) == set(self.model)


class PagedCacheMachine(CacheMachine):
    page_size = 3


class LargePagedCacheMachine(CacheMachine):
    page_size = 16


many = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCache = CacheMachine.TestCase
TestCache.settings = many
TestPagedCache = PagedCacheMachine.TestCase
TestPagedCache.settings = many
TestLargePagedCache = LargePagedCacheMachine.TestCase
TestLargePagedCache.settings = many
