import pytest

from scripts.bench.measure.cases import chunk, distinct, flops, read_bytes, shared, sharing_chunks

CASES = [shared(16, 2048, 64), distinct(4, 300), chunk(512, 2048), chunk(50, 0), sharing_chunks(3, 100, 7)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_row_has_one_end_and_every_slot_one_owner(case):
    ends = [segment for segment in case.segments if segment.causal]
    assert [row for end in ends for row in range(end.query_start, end.query_end)] == list(range(case.rows))
    slots = [slot for each in case.segments for run in each.runs for slot in range(run.start, run.start + run.length)]
    assert slots == list(range(case.slots))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sharing_changes_what_is_read_and_not_what_is_computed(case):
    assert flops(case.segments, heads=9, head_dim=64) == flops(case.unshared, heads=9, head_dim=64)
    shares = read_bytes(case.segments, token_bytes=2) < read_bytes(case.unshared, token_bytes=2)
    assert shares == case.shares


def test_what_a_case_costs():
    case = shared(16, 2048, 64)
    assert read_bytes(case.segments, token_bytes=10) == 10 * (2048 + 16 * 64)
    assert read_bytes(case.unshared, token_bytes=10) == 10 * 16 * (2048 + 64)
    assert flops(case.segments, heads=1, head_dim=1) == 4 * 16 * (2048 + 64)
    assert flops(chunk(3, 10).segments, heads=1, head_dim=1) == 4 * (11 + 12 + 13)
