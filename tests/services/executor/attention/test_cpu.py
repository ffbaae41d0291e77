from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from services.executor.attention.cpu import CpuAttention
from services.executor.kernels.team import Team
from tests.support.segments import Case, cases, expected

CPU = torch.device("cpu")
SHAPES = [
    (1, 1, 16),
    (3, 1, 64),
    (9, 3, 64),
    (4, 2, 48),
    (8, 2, 80),
    (8, 1, 80),
    (4, 4, 128),
    (12, 4, 96),
]  # heads, kv_heads, head_dim: 1, 2, 3, 4 and 8 heads for a KV head
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@cache
def team(threads: int) -> Team:
    return Team(threads)


def attention(case: Case, threads: int) -> Tensor:
    heads, head_dim = case.queries.shape[1:]
    backend = CpuAttention(heads, case.keys.shape[1], head_dim, team(threads))
    return backend.run(backend.plan(case.segments, CPU), case.queries, case.keys, case.values)


@st.composite
def any_case(draw: st.DrawFn, longest: int) -> Case:
    return draw(cases(shape=draw(st.sampled_from(SHAPES)), kv_dtype=draw(st.sampled_from(DTYPES)), longest=longest))


@pytest.mark.parametrize("longest", [20, 300])
@settings(deadline=None, max_examples=60)
@given(data=st.data(), threads=st.sampled_from([1, 2]))
def test_each_row_attends_to_its_context(longest: int, data: st.DataObject, threads: int) -> None:
    case = data.draw(any_case(longest))
    torch.testing.assert_close(attention(case, threads), expected(case), atol=1e-4, rtol=0)


@settings(deadline=None, max_examples=20)
@given(case=any_case(300))
def test_the_bits_do_not_depend_on_who_computes_what(case: Case) -> None:
    heads, head_dim = case.queries.shape[1:]
    alone, both = (CpuAttention(heads, case.keys.shape[1], head_dim, team(threads)) for threads in (1, 2))
    plan = both.plan(case.segments, CPU)
    first = both.run(plan, case.queries, case.keys, case.values)
    assert torch.equal(first, alone.run(plan, case.queries, case.keys, case.values))
