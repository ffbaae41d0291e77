"""The kernels by Triton's interpreter. It must be chosen before Triton is imported, so `test_backend` runs this file in
a process of its own."""

from dataclasses import dataclass, replace

import pytest
import torch
import triton.language as tl
from hypothesis import Phase, given, settings
from triton.runtime.interpreter import InterpreterBuilder

from services.executor.attention.base import Segment, SlotRun, contexts
from services.executor.attention.cuda.backend import CudaAttention
from tests.support.segments import Case, cases, expected

CPU = torch.device("cpu")
TOLERANCES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
# Shrinking takes minutes by the interpreter.
few = settings(max_examples=3, phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)


create_dot = InterpreterBuilder.create_dot


def create_exact_dot(builder, left, right, *others):
    """The interpreter multiplies the bits of bfloat16 numbers as if they were integers."""
    left, right = (
        builder.cast_impl(side, tl.float32) if side.dtype.scalar == tl.bfloat16 else side for side in (left, right)
    )
    return create_dot(builder, left, right, *others)


InterpreterBuilder.create_dot = create_exact_dot  # in this process, which ends with these tests


@dataclass(frozen=True)
class Shape:
    heads: int
    kv_heads: int
    head_dim: int


def backend(case: Case, *, pieces: int = 12, shortest: int = 8) -> CudaAttention:
    shape = Shape(case.queries.shape[1], *case.keys.shape[1:])
    return CudaAttention(shape, large_tile=32, pieces=pieces, shortest=shortest)


def check(case: Case, attention: CudaAttention) -> None:
    output = attention.run(attention.plan(case.segments, CPU), case.queries, case.keys, case.values)
    assert output.dtype == case.queries.dtype
    tolerance = TOLERANCES[case.queries.dtype]
    torch.testing.assert_close(output, expected(case), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((9, 3, 64), torch.float32),
        ((9, 3, 64), torch.bfloat16),
        ((8, 1, 80), torch.float32),
        ((8, 1, 80), torch.float16),
        ((2, 2, 128), torch.float32),
        ((2, 2, 128), torch.bfloat16),
    ],
)
def test_each_row_attends_to_its_context(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    @few
    @given(cases(shape=shape, kv_dtype=dtype, longest=30))
    def holds(case: Case) -> None:
        check(replace(case, queries=case.queries.to(dtype)), backend(case))

    holds()


@few
@given(cases(shape=(4, 2, 16), kv_dtype=torch.float16))
def test_keys_and_values_are_read_in_the_type_of_the_queries(case: Case) -> None:
    check(case, backend(case))


def long_case(rows: int, tokens: int) -> Case:
    """Rows that share a segment longer than a block of keys, each with a few tokens of its own."""
    generator = torch.Generator().manual_seed(1)
    own = [Segment(row, row + 1, (SlotRun(tokens + 5 * row, 3),), causal=True) for row in range(rows)]
    pool = torch.randn(2, tokens + 5 * rows, 2, 16, generator=generator)
    queries = torch.randn(rows, 6, 16, generator=generator)
    return Case((Segment(0, rows, (SlotRun(0, tokens),), causal=False), *own), queries, *pool)


@pytest.mark.parametrize(("pieces", "shortest"), [(1, 1000), (40, 16)])
def test_a_long_segment_whole_and_in_many_pieces(pieces: int, shortest: int) -> None:
    case = long_case(rows=20, tokens=300)
    check(case, backend(case, pieces=pieces, shortest=shortest))


def test_scores_far_apart_are_merged_without_overflow() -> None:
    case = long_case(rows=3, tokens=60)
    case = replace(case, queries=case.queries * 100)
    check(case, backend(case))


def test_the_scratch_buffer_serves_all_steps() -> None:
    case = long_case(rows=6, tokens=40)
    attention = backend(case)
    first = attention.plan(case.segments, CPU)
    alone = attention.plan(list(contexts(case.segments)), CPU)
    again = attention.plan(case.segments, CPU)
    assert first.partial.data_ptr() == again.partial.data_ptr()
    results = [attention.run(plan, case.queries, case.keys, case.values) for plan in (first, alone, again)]
    torch.testing.assert_close(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_queries_may_be_a_part_of_wider_rows() -> None:
    case = long_case(rows=3, tokens=40)
    wide = torch.cat((case.queries, torch.full((3, 2, 16), torch.nan)), dim=1)
    check(replace(case, queries=wide[:, :6]), backend(case))


@pytest.mark.parametrize("name", ["queries", "keys", "values"])
def test_what_is_not_contiguous_is_refused(name: str) -> None:
    case = long_case(rows=2, tokens=20)
    tensors = {"queries": case.queries, "keys": case.keys, "values": case.values}
    tensors[name] = tensors[name].transpose(1, 2).contiguous().transpose(1, 2)
    attention = backend(case)
    with pytest.raises(ValueError, match="contiguous"):
        attention.run(attention.plan(case.segments, CPU), **tensors)
