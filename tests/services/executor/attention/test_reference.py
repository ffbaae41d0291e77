import torch
from hypothesis import given, settings

from services.executor.attention.base import Segment, SlotRun
from services.executor.attention.reference import ReferenceAttention
from tests.support.segments import Case, cases, expected

CPU = torch.device("cpu")


@settings(deadline=None, max_examples=80)
@given(cases())
def test_each_row_attends_to_its_context(case: Case) -> None:
    backend = ReferenceAttention()
    output = backend.run(backend.plan(case.segments, CPU), case.queries, case.keys, case.values)
    torch.testing.assert_close(output, expected(case))


def test_one_run_is_read_in_place() -> None:
    pool = torch.randn(200, 2, 8)
    backend = ReferenceAttention()
    plan = backend.plan([Segment(0, 1, (SlotRun(30, 10),), causal=True)], CPU)
    queries = torch.randn(1, 4, 8)
    first = backend.run(plan, queries, pool, pool)
    pool[30:40] *= 2  # the plan holds no copy
    assert not torch.allclose(first, backend.run(plan, queries, pool, pool))
