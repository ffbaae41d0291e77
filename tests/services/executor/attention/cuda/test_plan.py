from collections import Counter
from collections.abc import Iterator
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from services.executor.attention.base import Segment, SlotRun, contexts
from services.executor.attention.cuda.plan import (
    DIRECT,
    PART,
    PART_END,
    ROW,
    ROWS,
    SEEN,
    TARGET,
    Cut,
    Pieces,
    pieces_of,
)
from tests.support.segments import Case, cases

CUTS = st.builds(
    Cut,
    small_rows=st.integers(1, 3),
    large_rows=st.integers(3, 9),
    pieces=st.integers(1, 40),
    shortest=st.integers(1, 10),
)


def played(pieces: Pieces) -> dict[int, Counter[int]]:
    """What the kernels would do, with the slots that a row has seen in the place of its result."""
    output: dict[int, Counter[int]] = {}
    scratch: dict[int, Counter[int]] = {}
    for piece in chain(pieces.small.tolist(), pieces.large.tolist()):
        for row in range(piece[ROWS]):
            results = output if piece[DIRECT] else scratch
            assert piece[TARGET] + row not in results, "two results in one place"
            results[piece[TARGET] + row] = Counter(seen(pieces, piece, row))
            assert not piece[DIRECT] or piece[TARGET] == piece[ROW]
    assert len(scratch) == pieces.scratch_rows
    for index, row in enumerate(pieces.merged_rows.tolist()):
        assert row not in output
        sources = pieces.sources[pieces.firsts[index] : pieces.firsts[index + 1]].tolist()
        output[row] = sum((scratch[source] for source in sources), Counter())
    return output


def seen(pieces: Pieces, piece: list[int], row: int) -> Iterator[int]:
    for slot, length, position in pieces.parts[piece[PART] : piece[PART_END]].tolist():
        yield from (slot + index for index in range(length) if position + index < piece[SEEN] + row)


def expected(segments: tuple[Segment, ...]) -> dict[int, Counter[int]]:
    found = {}
    for context in contexts(segments):
        slots = [slot for run in context.runs for slot in range(run.start, run.start + run.length)]
        for row in range(context.query_start, context.query_end):
            found[row] = Counter(slots[: len(slots) - (context.query_end - 1 - row)])
    return found


@given(cases(), CUTS)
def test_each_row_sees_its_context_once(case: Case, cut: Cut) -> None:
    assert played(pieces_of(case.segments, cut)) == expected(case.segments)


@given(cases(), CUTS)
def test_pieces_fit_their_tile(case: Case, cut: Cut) -> None:
    pieces = pieces_of(case.segments, cut)
    assert (pieces.small[:, ROWS] <= cut.small_rows).all()
    assert ((pieces.large[:, ROWS] > cut.small_rows) & (pieces.large[:, ROWS] <= cut.large_rows)).all()


def test_a_long_segment_is_cut_until_the_device_is_busy() -> None:
    segments = [Segment(0, 1, (SlotRun(0, 1000),), causal=True)]
    pieces = pieces_of(segments, Cut(small_rows=4, large_rows=16, pieces=8, shortest=100))
    assert pieces.parts.tolist() == [[125 * index, 125, 125 * index] for index in range(8)]
    pieces = pieces_of(segments, Cut(small_rows=4, large_rows=16, pieces=8, shortest=500))
    assert len(pieces.small) == 2


def test_a_prompt_alone_has_its_results_at_once() -> None:
    """And its first rows do not read what they cannot see."""
    segments = [Segment(0, 40, (SlotRun(5, 40),), causal=True)]
    pieces = pieces_of(segments, Cut(small_rows=4, large_rows=16, pieces=1, shortest=100))
    assert pieces.scratch_rows == len(pieces.merged_rows) == 0
    assert pieces.parts.tolist() == [[5, 16, 0], [5, 32, 0], [5, 40, 0]]


def test_of_nothing_there_are_no_pieces() -> None:
    pieces = pieces_of([], Cut(small_rows=4, large_rows=16, pieces=8, shortest=100))
    assert len(pieces.small) == len(pieces.large) == len(pieces.merged_rows) == 0
