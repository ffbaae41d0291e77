import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.attention.base import SequenceSpan, SlotRun
from services.executor.attention.reference import ReferenceAttention

HEADS, KV_HEADS, HEAD_DIM, POOL_SLOTS = 4, 2, 8, 200
CPU = torch.device("cpu")


def expected(span, slots, queries, keys, values):
    """Query by query, head by head, as the formula says."""
    output = torch.empty_like(queries)
    for row in range(span.query_tokens):
        seen = slots[: span.cached_tokens + row + 1]
        for head in range(HEADS):
            kv_head = head // (HEADS // KV_HEADS)
            scores = keys[seen, kv_head] @ queries[row, head] / math.sqrt(HEAD_DIM)
            output[row, head] = scores.softmax(0) @ values[seen, kv_head]
    return output


sequences = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 20), st.booleans()),  # queries, cached, contiguous
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=60)
@given(sequences, st.integers(0, 1000))
def test_each_sequence_attends_to_its_own_past(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(POOL_SLOTS, KV_HEADS, HEAD_DIM, generator=generator)
    values = torch.randn(POOL_SLOTS, KV_HEADS, HEAD_DIM, generator=generator)
    scattered = torch.randperm(POOL_SLOTS, generator=generator)
    spans, slots, row, used = [], [], 0, 0
    for queries, cached, contiguous in shapes:
        length = queries + cached
        own = torch.arange(used, used + length) if contiguous else scattered[used : used + length]
        spans.append(SequenceSpan(row, row + queries, cached, SlotRun(used, length) if contiguous else own))
        slots.append(own)
        row, used = row + queries, used + length
    queries = torch.randn(row, HEADS, HEAD_DIM, generator=generator)

    backend = ReferenceAttention()
    output = backend.run(backend.plan(spans, CPU), queries, keys, values)

    for span, own in zip(spans, slots, strict=True):
        rows = slice(span.query_start, span.query_end)
        torch.testing.assert_close(output[rows], expected(span, own, queries[rows], keys, values))


def test_a_contiguous_context_is_read_in_place():
    pool = torch.randn(POOL_SLOTS, KV_HEADS, HEAD_DIM)
    spans = [SequenceSpan(0, 1, 9, SlotRun(30, 10))]
    backend = ReferenceAttention()
    plan = backend.plan(spans, CPU)
    queries = torch.randn(1, HEADS, HEAD_DIM)
    first = backend.run(plan, queries, pool, pool)
    pool[30:40] *= 2  # the plan holds no copy
    assert not torch.allclose(first, backend.run(plan, queries, pool, pool))


@pytest.mark.parametrize(("cached", "queries"), [(0, 1), (0, 5), (7, 1), (7, 5)])
def test_a_query_does_not_see_what_follows_it(cached, queries):
    keys = torch.randn(cached + queries, KV_HEADS, HEAD_DIM)
    values = torch.randn(cached + queries, KV_HEADS, HEAD_DIM)
    rows = torch.randn(queries, HEADS, HEAD_DIM)
    backend = ReferenceAttention()
    plan = backend.plan([SequenceSpan(0, queries, cached, SlotRun(0, cached + queries))], CPU)
    before = backend.run(plan, rows, keys, values)
    values[-1] += 100
    after = backend.run(plan, rows, keys, values)
    torch.testing.assert_close(before[:-1], after[:-1])
    assert not torch.allclose(before[-1], after[-1])
