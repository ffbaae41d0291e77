"""The segments of a step against the slots that each lane holds, whatever the tree looks like."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.attention.base import Segment, SlotRun, contexts
from services.executor.chunk import Chunk
from services.executor.lanes import Lane
from services.executor.radix_cache import RadixCache
from services.executor.segments import SHARED_TOKENS, in_tree_order, joined, segments_of
from services.executor.slots import SlotAllocator
from shared import wire

PREFIXES = ([1] * 40, [2] * 3, [1] * 20 + [3] * 30, [])


def slots_of(runs: tuple[SlotRun, ...]) -> list[int]:
    return [slot for run in runs for slot in range(run.start, run.start + run.length)]


def lane(number: int, namespace: str, tokens: list[int]) -> Lane:
    sampling = wire.Sampling(temperature=0.0, seed=0)
    admit = wire.Admit(number, str(number), tuple(tokens), sampling, max_new_tokens=8, namespace=namespace)
    return Lane(admit, page_size=1, eos_token_ids=frozenset())


def computed(cache: RadixCache, lanes: list[Lane], chunk_tokens: int) -> list[list[Chunk]]:
    """The batches of chunked prompts, each committed after it was made."""
    batches = []
    for one in lanes:
        one.begin(cache)
    while left := [one for one in lanes if one.computed < one.known]:
        chunks = []
        for one in left:
            count = min(chunk_tokens, one.known - one.computed)
            assert one.grow(cache, count)
            chunks.append(Chunk(one, one.computed, one.computed + count))
        batches.append(in_tree_order(chunks))
        check(batches[-1])
        for chunk in chunks:
            chunk.lane.commit(cache, chunk.end - chunk.start)
    return batches


def check(chunks: list[Chunk]) -> tuple[Segment, ...]:
    segments = segments_of(chunks)
    own = [segment for segment in segments if segment.causal]
    assert [segment.query_tokens for segment in own] == [chunk.rows for chunk in chunks]
    assert [segment.query_start for segment in own] == np.cumsum([0, *(chunk.rows for chunk in chunks[:-1])]).tolist()
    for chunk, context in zip(chunks, contexts(segments), strict=True):
        assert slots_of(context.runs) == chunk.lane.slots[: chunk.end].tolist()
    for segment in segments:
        assert segment.runs == joined(segment.runs)
        assert segment.causal or (segment.tokens >= SHARED_TOKENS and segment.query_tokens > 1)
    return segments


requests = st.lists(
    st.tuples(st.sampled_from(["", "b"]), st.sampled_from(PREFIXES), st.integers(1, 60)), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=100)
@given(requests, requests, st.integers(1, 50))
def test_every_context_is_whole_and_in_order(
    first: list[tuple[str, list[int], int]], second: list[tuple[str, list[int], int]], chunk_tokens: int
) -> None:
    cache = RadixCache(SlotAllocator(4096))
    numbers = iter(range(100))
    for wave in (first, second):
        lanes = [lane(next(numbers), space, [*prefix, *range(9, 9 + end)]) for space, prefix, end in wave]
        computed(cache, lanes, chunk_tokens)


def test_a_prefix_that_is_computed_stands_once() -> None:
    cache = RadixCache(SlotAllocator(4096))
    prefix = list(range(100, 200))
    computed(cache, [lane(0, "", [*prefix, 1])], 1000)
    lanes = [lane(number, "", [*prefix, 7, *range(number, number + 3)]) for number in range(10, 14)]
    for one in lanes:
        one.begin(cache)
        assert one.grow(cache, one.known - one.computed)
    chunks = in_tree_order(Chunk(one, one.computed, one.known) for one in lanes)
    shared = [segment for segment in check(chunks) if not segment.causal]
    assert [(segment.query_start, segment.query_end, segment.tokens) for segment in shared] == [(0, 16, 100)]
