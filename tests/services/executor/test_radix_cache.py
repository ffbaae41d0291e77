from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.executor.radix_cache import NoCache, Node, NodeShape, RadixCache
from services.executor.slots import SlotAllocator, Slots
from shared.invariant import BrokenInvariant


def ids(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


def make(capacity: int = 100, page_size: int = 1) -> RadixCache:
    return RadixCache(SlotAllocator(capacity, page_size))


def put(cache: RadixCache, tokens: np.ndarray, namespace: str = "") -> int:
    """One request from start to end: what it did not find is computed and kept. Returns what it found."""
    held = cache.pin(namespace, tokens)
    cached = len(held.slots)
    whole = len(tokens) // cache.page_size * cache.page_size
    slots = cache.allocate(whole - cached)
    assert slots is not None
    cache.unpin(cache.extend(held.node, tokens[cached:whole], slots).node)
    cache.check_integrity()
    return cached


def shapes(cache: RadixCache) -> list[tuple[int, int]]:
    return sorted((shape.depth_tokens, shape.tokens) for shape in cache.shape())


# --- finding ---------------------------------------------------------------------------------------------------------


def test_cached_tokens_of_growing_and_shrinking_prompts() -> None:
    cache = make(22_000)
    lengths = (100, 10_000, 10_000, 1_000, 11_000)
    assert [put(cache, np.arange(length)) for length in lengths] == [0, 100, 9_999, 999, 10_000]


def test_cached_tokens_within_a_context_of_8192() -> None:
    cache = make(8_192)
    lengths = (100, 7_000, 7_000, 1_000, 7_500)
    assert [put(cache, np.arange(length)) for length in lengths] == [0, 100, 6_999, 999, 7_000]


def test_only_whole_pages_are_found_and_one_token_is_left_to_compute() -> None:
    cache = make(64, page_size=4)
    put(cache, np.arange(10))
    assert cache.hint("", np.arange(10)) == 8
    assert cache.hint("", np.arange(8)) == 4
    assert cache.hint("", np.arange(3)) == 0
    assert cache.hint("", ids(0, 1, 2, 3, 4, 9, 9, 9, 9)) == 4


def test_a_hint_changes_nothing() -> None:
    cache = make()
    put(cache, np.arange(10))
    before = (list(cache.shape()), cache.uses, cache.nodes, cache.version, cache.namespaces)
    assert cache.hint("", ids(0, 1, 2, 99)) == 3
    assert cache.hint("other", np.arange(10)) == 0
    assert (list(cache.shape()), cache.uses, cache.nodes, cache.version, cache.namespaces) == before


def test_namespaces_share_nothing() -> None:
    cache = make()
    assert put(cache, np.arange(10), "a") == 0
    assert put(cache, np.arange(10), "b") == 0
    assert put(cache, np.arange(10), "a") == 9


def test_an_empty_namespace_leaves_nothing_behind() -> None:
    cache = make()
    cache.unpin(cache.pin("a", np.arange(5)).node)
    put(cache, np.arange(5), "b")
    cache.flush()
    assert cache.namespaces == 0


# --- keeping ---------------------------------------------------------------------------------------------------------


def test_what_is_computed_is_found_while_its_request_still_runs() -> None:
    cache = make()
    held = cache.pin("", np.arange(6))
    slots = cache.allocate(6)
    assert slots is not None
    running = cache.extend(held.node, np.arange(6), slots)
    assert cache.hint("", np.arange(6)) == 5
    assert cache.pinned_tokens == 6
    cache.check_integrity([(running.node, slots[:0])])


def test_a_request_that_grows_alone_stays_one_node() -> None:
    cache = make()
    node = cache.pin("", np.arange(50)).node
    for start in range(0, 50, 10):
        slots = cache.allocate(10)
        assert slots is not None
        node = cache.extend(node, np.arange(start, start + 10), slots).node
    assert shapes(cache) == [(0, 50)]


def test_the_end_of_a_prompt_stays_a_boundary() -> None:
    cache = make()
    node = cache.pin("", np.arange(5)).node
    for tokens in (np.arange(5), ids(7, 8)):
        slots = cache.allocate(len(tokens))
        assert slots is not None
        node = cache.extend(node, tokens, slots).node
        cache.seal(node)
    assert shapes(cache) == [(0, 5), (5, 2)]


def test_two_who_computed_the_same_keep_it_once() -> None:
    cache = make()
    nodes = [cache.pin("", np.arange(8)).node for _ in range(2)]
    mine = [cache.allocate(8) for _ in range(2)]
    assert mine[0] is not None
    assert mine[1] is not None
    first = cache.extend(nodes[0], np.arange(8), mine[0])
    second = cache.extend(nodes[1], np.arange(8), mine[1])
    assert np.array_equal(second.slots, mine[0])
    assert (cache.pinned_tokens, cache.cached_tokens) == (8, 8)
    cache.check_integrity([(held.node, held.slots[:0]) for held in (first, second)])


def test_a_pin_inside_a_node_leaves_the_rest_evictable() -> None:
    cache = make(10)
    put(cache, np.arange(10))
    held = cache.pin("", ids(0, 1, 2, 3, 99))
    assert (cache.pinned_tokens, cache.evictable_tokens) == (4, 6)
    assert cache.allocate(7) is None
    slots = cache.allocate(6)
    assert slots is not None
    cache.check_integrity([(held.node, slots)])


# --- evicting --------------------------------------------------------------------------------------------------------


def test_eviction_takes_the_least_recently_used_and_no_more_than_needed() -> None:
    cache = make(31)
    for start in (0, 100, 200):
        put(cache, np.arange(start, start + 10))
    put(cache, np.arange(10))  # used again
    slots = cache.allocate(5)
    assert slots is not None
    cache.free(slots)
    hints = [cache.hint("", np.arange(start, start + 11)) for start in (0, 100, 200)]
    assert hints == [10, 6, 10]
    assert cache.evicted_tokens == 4


def test_output_goes_before_the_prompt_that_it_followed() -> None:
    cache = make(20)
    for start in (0, 100):
        held = cache.pin("", np.arange(start, start + 5))
        slots = cache.allocate(5)
        assert slots is not None
        prompt = cache.extend(held.node, np.arange(start, start + 5), slots)
        cache.seal(prompt.node)
        slots = cache.allocate(5)
        assert slots is not None
        cache.unpin(cache.extend(prompt.node, np.arange(50, 55), slots).node)
    assert shapes(cache) == [(0, 5), (0, 5), (5, 5), (5, 5)]
    cache.pin("", np.arange(100, 106))
    slots = cache.allocate(5)
    assert slots is not None
    assert cache.hint("", np.arange(6)) == 5


def test_flush_frees_all_but_what_is_pinned() -> None:
    cache = make()
    put(cache, np.arange(10))
    held = cache.pin("", np.arange(4))
    assert cache.flush() == 7
    assert cache.evicted_tokens == 0
    cache.unpin(held.node)
    assert cache.flush() == 3
    assert cache.cached_tokens == cache.nodes == 0
    cache.check_integrity()


def test_the_shape_tells_no_text() -> None:
    cache = make()
    put(cache, np.arange(10))
    assert list(cache.shape()) == [NodeShape(depth_tokens=0, tokens=10, children=0, pins=0, last_used=cache.uses)]


def test_switched_off_it_finds_and_keeps_nothing() -> None:
    cache = NoCache(SlotAllocator(10))
    node = cache.pin("", np.arange(5)).node
    slots = cache.allocate(5)
    assert slots is not None
    held = cache.extend(node, np.arange(5), slots)
    assert len(held.slots) == 0
    assert cache.hint("", np.arange(5)) == 0
    cache.check_integrity([(held.node, slots)])


# --- the check itself ------------------------------------------------------------------------------------------------


def a_leaf(cache: RadixCache) -> Node:
    held = cache.pin("", np.arange(10))
    cache.unpin(held.node)
    return held.node


def lose_a_slot(cache: RadixCache) -> None:
    cache.allocate(1)


def count_wrongly(cache: RadixCache) -> None:
    cache.evictable_tokens += 1


def pin_twice(cache: RadixCache) -> None:
    cache.pin("", np.arange(10))


def rename_a_node(cache: RadixCache) -> None:
    leaf = a_leaf(cache)
    leaf.tokens = leaf.tokens + 1


def own_twice(cache: RadixCache) -> None:
    leaf = a_leaf(cache)
    leaf.slots = np.repeat(leaf.slots[:1], len(leaf.slots))


def forget_to_queue(cache: RadixCache) -> None:
    cache._heap.clear()


@pytest.mark.parametrize(
    "fault",
    [lose_a_slot, count_wrongly, pin_twice, rename_a_node, own_twice, forget_to_queue],
    ids=lambda f: f.__name__,
)
def test_the_check_finds(fault: object) -> None:
    cache = make()
    put(cache, np.arange(10))
    assert callable(fault)
    fault(cache)
    with pytest.raises(BrokenInvariant):
        cache.check_integrity()


# --- against a dictionary of prefixes --------------------------------------------------------------------------------

Prefix = tuple[str, tuple[int, ...]]


@dataclass(eq=False)
class Request:
    """A running request as the model sees it: tokens [0, shared) are in the tree, `private` slots follow them."""

    namespace: str
    tokens: tuple[int, ...]
    shared: int
    node: Node
    private: Slots

    def __repr__(self) -> str:
        return f"<{self.namespace!r} {self.tokens} shared {self.shared}>"


@dataclass
class Cached:
    """The last page of a cached prefix."""

    slots: list[int]
    last_used: int


class CacheMachine(RuleBasedStateMachine):
    """The cache against its definition: every cached prefix of whole pages, its last page's slots and its last use."""

    page_size = 1

    @initialize(pages=st.integers(8, 60))
    def start(self, pages: int) -> None:
        self.capacity = pages * self.page_size
        self.cache = RadixCache(SlotAllocator(self.capacity, self.page_size))
        self.model: dict[Prefix, Cached] = {}
        self.requests: list[Request] = []
        self.texts: list[tuple[int, ...]] = [()]  # what requests went through
        self.now = 0

    # What the model knows.

    def whole(self, tokens: Sequence[int]) -> int:
        return len(tokens) // self.page_size * self.page_size

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

    def longest(self, namespace: str, tokens: Sequence[int]) -> int:
        """Length of the longest cached prefix, at least one token short of all."""
        found = [prefix for prefix in self.prefixes(namespace, tokens[:-1]) if prefix in self.model]
        return len(found) * self.page_size

    def use(self, namespace: str, tokens: Sequence[int]) -> None:
        self.now += 1
        for prefix in self.prefixes(namespace, tokens):
            self.model[prefix].last_used = self.now

    def slots(self, namespace: str, tokens: Sequence[int]) -> list[int]:
        return [slot for prefix in self.prefixes(namespace, tokens) for slot in self.model[prefix].slots]

    def evict(self, tokens: int) -> None:
        pinned = self.pinned()
        for _ in range(tokens // self.page_size):
            parents = {(namespace, tokens[: -self.page_size]) for namespace, tokens in self.model}
            leaves = [prefix for prefix in self.model if prefix not in pinned and prefix not in parents]
            del self.model[min(leaves, key=lambda prefix: self.model[prefix].last_used)]

    # What can happen.

    namespaces = st.sampled_from(["", "other"])
    endings = st.lists(st.integers(0, 1), min_size=1, max_size=6)

    @rule(data=st.data(), namespace=namespaces, ending=endings)
    def begin(self, data: st.DataObject, namespace: str, ending: list[int]) -> None:
        """A prompt that goes on from some text so far."""
        tokens = [*data.draw(st.sampled_from(self.texts)), *ending]
        found = self.longest(namespace, tokens)
        assert self.cache.hint(namespace, ids(*tokens)) == found
        held = self.cache.pin(namespace, ids(*tokens))
        assert held.slots.tolist() == self.slots(namespace, tokens[:found])
        self.use(namespace, tokens[:found])
        self.requests.append(Request(namespace, tuple(tokens[:found]), found, held.node, held.slots[:0]))

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), tokens=endings)
    def compute(self, data: st.DataObject, tokens: list[int]) -> None:
        """Some more tokens of a request: slots for them, then whole pages handed over."""
        request = data.draw(st.sampled_from(self.requests))
        total = len(request.tokens) + len(tokens)
        missing = -(-total // self.page_size) * self.page_size - request.shared - len(request.private)
        slots = self.allocate(missing, after=int(request.private[-1]) if len(request.private) else None)
        if slots is None:
            return
        request.tokens += tuple(tokens)
        request.private = np.concatenate((request.private, slots))
        self.texts.append(request.tokens)
        if data.draw(st.booleans()):
            self.hand_over(request)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Finish, abort, preempt: they are one to the cache."""
        request = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request)
        self.use(request.namespace, request.tokens[: request.shared])
        self.cache.unpin(request.node)
        self.cache.free(request.private)

    @rule(pages=st.integers(1, 6))
    def evict_some(self, pages: int) -> None:
        slots = self.allocate(pages * self.page_size)
        if slots is not None:
            self.cache.free(slots)

    @rule()
    def flush(self) -> None:
        assert self.cache.flush() == self.cached_tokens() - self.pinned_tokens()
        self.model = {prefix: self.model[prefix] for prefix in self.pinned()}

    @rule(data=st.data(), namespace=namespaces, ending=endings)
    def look(self, data: st.DataObject, namespace: str, ending: list[int]) -> None:
        tokens = [*data.draw(st.sampled_from(self.texts)), *ending]
        assert self.cache.hint(namespace, ids(*tokens)) == self.longest(namespace, tokens)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        self.cache.seal(data.draw(st.sampled_from(self.requests)).node)

    def allocate(self, tokens: int, after: int | None = None) -> Slots | None:
        free = self.capacity - self.cached_tokens() - sum(len(request.private) for request in self.requests)
        evictable = self.cached_tokens() - self.pinned_tokens()
        slots = self.cache.allocate(tokens, after)
        assert (slots is None) == (tokens > free + evictable)
        if slots is not None:
            self.evict(max(0, tokens - free))
        return slots

    def hand_over(self, request: Request) -> None:
        start, end = request.shared, self.whole(request.tokens)
        given, private = request.private[: end - start], request.private[end - start :]
        held = self.cache.extend(request.node, ids(*request.tokens[start:end]), given)
        pages = given.reshape(-1, self.page_size).tolist()
        for prefix, page in zip(
            self.prefixes(request.namespace, request.tokens)[start // self.page_size :], pages, strict=True
        ):
            self.model.setdefault(prefix, Cached(page, self.now))
        assert held.slots.tolist() == self.slots(request.namespace, request.tokens)[start:end]
        request.node, request.private, request.shared = held.node, private, end

    @invariant()
    def everything_adds_up(self) -> None:
        self.cache.check_integrity([(request.node, request.private) for request in self.requests])
        assert self.cache.pinned_tokens == self.pinned_tokens()
        assert self.cache.cached_tokens == self.cached_tokens()


class PagedCacheMachine(CacheMachine):
    page_size = 3


many = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCache = CacheMachine.TestCase
TestCache.settings = many
TestPagedCache = PagedCacheMachine.TestCase
TestPagedCache.settings = many
