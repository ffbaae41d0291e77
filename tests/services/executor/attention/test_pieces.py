import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.executor.attention.base import Segment, SlotRun
from services.executor.attention.pieces import plan_attention
from services.executor.kernels.attention import MAX_QUERIES
from services.executor.kernels.piece import Piece
from tests.support.segments import Case, cases


def pieces_of(segments: tuple[Segment, ...], heads: int, kv_heads: int, threads: int) -> list[Piece]:
    plan = plan_attention(segments, heads, kv_heads, 64, threads)
    return [Piece(*row) for row in plan.memory[1].tolist()]


@given(case=cases(shape=(9, 3, 8), longest=300), threads=st.integers(1, 8))
def test_every_row_head_and_token_is_in_one_piece(case: Case, threads: int) -> None:
    segments = case.segments
    tokens = np.cumsum([0, *(segment.tokens for segment in segments)])
    covered = np.zeros((len(case.queries), 3, tokens[-1]), int)
    for piece in pieces_of(segments, 9, 3, threads):
        assert piece.rows * 3 * piece.kv_heads <= MAX_QUERIES
        rows, heads = slice(piece.row, piece.row + piece.rows), slice(piece.kv_head, piece.kv_head + piece.kv_heads)
        for row in range(piece.rows):
            end = min(piece.end, piece.limit + row * piece.step)
            covered[rows, heads][row, :, piece.token : max(end, piece.token)] += 1
    wanted = np.zeros_like(covered)
    for segment, start, end in zip(segments, tokens, tokens[1:], strict=False):
        for row in range(segment.query_start, segment.query_end):
            hidden = segment.causal * (segment.query_end - 1 - row)
            wanted[row, :, start : end - hidden] += 1
    assert (covered == wanted).all()


def test_a_long_segment_is_split_and_a_short_one_written_at_once() -> None:
    long = pieces_of((Segment(0, 1, (SlotRun(0, 8192),), causal=True),), 9, 3, 2)
    assert len(long) > 8
    assert not any(piece.direct for piece in long)
    (short,) = pieces_of((Segment(0, 1, (SlotRun(0, 64),), causal=True),), 9, 3, 2)
    assert short.direct
