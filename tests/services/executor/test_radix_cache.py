from __future__ import annotations

import numpy as np
import pytest

from services.executor.nodes import Node
from services.executor.radix_cache import NoCache, RadixCache
from services.executor.slots import SlotAllocator
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
    return sorted((depth, len(node.tokens)) for depth, node in cache.walk())


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
    assert cache.match("", np.arange(10)) == 8
    assert cache.match("", np.arange(8)) == 4
    assert cache.match("", np.arange(3)) == 0
    assert cache.match("", ids(0, 1, 2, 3, 4, 9, 9, 9, 9)) == 4


def test_a_look_changes_nothing() -> None:
    cache = make()
    put(cache, np.arange(10))
    cache.take_events()
    before = (list(cache.walk()), cache.uses, cache.nodes, cache.namespaces)
    assert cache.match("", ids(0, 1, 2, 99)) == 3
    assert cache.match("other", np.arange(10)) == 0
    assert (list(cache.walk()), cache.uses, cache.nodes, cache.namespaces) == before
    assert cache.take_events() == ()


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
    assert cache.match("", np.arange(6)) == 5
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


def test_what_was_found_does_not_grow() -> None:
    cache = make()
    put(cache, np.arange(10))
    put(cache, np.arange(30))
    put(cache, np.arange(50))
    assert shapes(cache) == [(0, 10), (10, 20), (30, 20)]


def test_a_node_that_has_grown_much_is_cut_and_grows_again() -> None:
    cache = make(300)
    held = cache.pin("", np.arange(200))
    node = held.node
    for token in range(200):
        slots = cache.allocate(1)
        assert slots is not None
        node = cache.extend(node, ids(token), slots).node
    cache.unpin(node)
    cache.pin("", np.arange(51))
    cache.flush()
    assert (shapes(cache), cache.match("", np.arange(200))) == ([(0, 50)], 50)
    assert node.number not in {node.number for _, node in cache.walk()}


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
    hints = [cache.match("", np.arange(start, start + 11)) for start in (0, 100, 200)]
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
    assert cache.match("", np.arange(6)) == 5


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


def test_switched_off_it_finds_and_keeps_nothing() -> None:
    cache = NoCache(SlotAllocator(10))
    node = cache.pin("", np.arange(5)).node
    slots = cache.allocate(5)
    assert slots is not None
    held = cache.extend(node, np.arange(5), slots)
    assert len(held.slots) == 0
    assert cache.match("", np.arange(5)) == 0
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
    cache._accounts.of("").leaves._heap.clear()


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
