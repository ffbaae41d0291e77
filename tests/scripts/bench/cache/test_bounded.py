"""The optimum against all choices, and against a list that is searched from end to end; the caches token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.bench.cache import unbounded
from scripts.bench.cache.bounded import Cache, TooLarge, farthest_first, oldest_first, reused_tokens
from scripts.bench.cache.tree import Tree
from tests.scripts.bench.cache.traces import longest_held, prefixes, record, records


def held_by(one):
    return frozenset((one.namespace, prefix) for prefix in prefixes(one.token_ids))


def found_in(cached, one):
    return longest_held({prefix for namespace, prefix in cached if namespace == one.namespace}, one.prompt_ids)


def smaller(cached, held):
    """Every set that remains after one more token has gone, from an end, never one that is held."""
    parents = {(namespace, prefix[:-1]) for namespace, prefix in cached}
    return {cached - {token} for token in cached if token not in parents and token not in held}


def exhaustive(trace, capacity):
    """The most that any choice of evictions reuses, early ones included."""
    outcomes = {frozenset(): 0}
    for one in trace:
        held = held_by(one)
        found = {}
        for cached, reused in outcomes.items():
            frontier = {cached | held}
            while frontier:
                for kept in frontier:
                    if len(kept) <= capacity:
                        found[kept] = max(found.get(kept, 0), reused + found_in(cached, one))
                frontier = {rest for kept in frontier for rest in smaller(kept, held)}
        outcomes = found
    return max(outcomes.values())


def naive_lru(trace, capacity):
    """One token at a time: the one held least recently, of those the deepest."""
    held_last = {}
    reused = 0
    for number, one in enumerate(trace):
        reused += found_in(held_last, one)
        held_last |= dict.fromkeys(held_by(one), number)
        while len(held_last) > capacity:
            del held_last[min(held_last, key=lambda token: (held_last[token], -len(token[1])))]
    return reused


def least_capacity(trace):
    return max(len(one.token_ids) for one in trace)


@given(records(max_size=5, longest=3), st.integers(0, 2))
@settings(deadline=None)
def test_nothing_that_a_cache_could_do_reuses_more(trace, more):
    capacity = least_capacity(trace) + more
    assert sum(reused_tokens(trace, capacity)) == exhaustive(trace, capacity)


@given(records(max_size=16, longest=8), st.integers(0, 10))
def test_between_least_recently_used_and_unbounded(trace, more):
    capacity = least_capacity(trace) + more
    best = sum(reused_tokens(trace, capacity))
    assert sum(reused_tokens(trace, capacity, oldest_first)) <= best <= sum(unbounded.reused_tokens(trace))


@given(records(max_size=16, longest=8), st.integers(0, 10))
def test_least_recently_used_is_what_it_says(trace, more):
    capacity = least_capacity(trace) + more
    assert sum(reused_tokens(trace, capacity, oldest_first)) == naive_lru(trace, capacity)


@given(records(max_size=16, longest=8))
def test_with_room_for_all_it_is_the_unbounded_cache(trace):
    assert reused_tokens(trace, Tree(trace).tokens) == unbounded.reused_tokens(trace)


@given(records(max_size=16, longest=8), st.integers(0, 10), st.sampled_from([farthest_first, oldest_first]))
def test_what_is_cached_is_a_set_of_prefixes_that_fits_and_has_what_the_request_holds(trace, more, rank):
    tree = Tree(trace)
    cache = Cache(least_capacity(trace) + more, rank)
    for number, path in enumerate(tree.paths):
        cache.reuse(number, path, len(trace[number].prompt_ids) - 1)
        assert cache.tokens == sum(cache.cached.values()) <= cache.capacity_tokens
        assert all(cache.cached[id(segment)] == len(segment.tokens) for segment in path)
        for other in tree.paths:
            is_whole = True
            for segment in other:
                cached = cache.cached.get(id(segment), 0)
                assert is_whole or not cached
                is_whole = cached == len(segment.tokens)


def test_what_is_used_soonest_is_kept():
    first, second = record([1, 2, 3, 4, 9]), record([5, 6, 7, 8, 9])
    trace = [first, second, record([3, 3]), first]
    assert reused_tokens(trace, 7) == [0, 0, 0, 2]
    assert reused_tokens(trace, 9) == [0, 0, 0, 2 + 2]
    assert reused_tokens(trace, 7, oldest_first) == [0, 0, 0, 0]


def test_a_request_that_does_not_fit_alone_is_refused():
    with pytest.raises(TooLarge):
        reused_tokens([record([1, 2]), record([1, 2, 3], [4])], 3)
