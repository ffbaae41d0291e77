"""From the segments of a step to pieces that keep a device busy, each with the places of its keys and of its result.

    tile:   rows of one segment that fit into one matrix product, and the tokens that at least one of them sees.
    piece:  a tile's rows with some of its tokens: what one program of a device computes, for one KV head.

Long tiles are cut along their tokens until there are enough pieces for the whole device. A row that is in several
pieces has partial results in a scratch buffer, which are merged; one that is in a single piece has its result at once.

Knows rows, tokens and slots. Does not know tensors, devices or the arithmetic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from services.executor.attention.base import Segment, SlotRun

Table = NDArray[np.int32]

# Columns of a piece.
ROW, ROWS = 0, 1  # rows [ROW, ROW + ROWS) of the batch
PART, PART_END = 2, 3  # its keys: these rows of `parts`
SEEN = 4  # the first row sees the tokens at positions below it, each further row one more
TARGET = 5  # where the first row's result goes: a row of the scratch buffer, or of the output if DIRECT
DIRECT = 6
PIECE_COLUMNS = 8  # the last one is there for even strides
# Columns of a part, a run of slots: its first slot, its length, the position of its first token in the segment.
PART_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Pieces:
    small: Table  # (pieces, PIECE_COLUMNS): those whose rows fit the small tile
    large: Table
    parts: Table  # (parts, PART_COLUMNS)
    merged_rows: Table  # (rows,) that have partial results
    firsts: Table  # (rows + 1,): those of row i are sources[firsts[i] : firsts[i + 1]]
    sources: Table  # rows of the scratch buffer
    scratch_rows: int

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.small, self.large, self.parts, self.merged_rows, self.firsts, self.sources


@dataclass(frozen=True, slots=True)
class Cut:
    """How a step is cut; rows are counted without the heads that are stacked on them."""

    small_rows: int  # rows of a small tile
    large_rows: int
    pieces: int  # as many as the device needs to be busy
    shortest: int  # tokens of a piece, unless its tile has fewer


@dataclass(frozen=True, slots=True)
class _Tile:
    row: int
    rows: int
    seen: int
    tokens: int  # those before are seen by at least one row
    runs: tuple[SlotRun, ...]
    ends: tuple[int, ...]  # positions where the runs end

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The slots of the tokens [start, end)."""
        index = bisect_right(self.ends, start)
        while start < end:
            stop = min(self.ends[index], end)
            run = self.runs[index]
            yield run.start + run.length - (self.ends[index] - start), stop - start, start
            start, index = stop, index + 1


def pieces_of(segments: Sequence[Segment], cut: Cut) -> Pieces:
    tiles = [tile for segment in segments for tile in _tiles(segment, cut.large_rows)]
    wanted = -(-sum(tile.tokens for tile in tiles) // cut.pieces)
    pieces: list[tuple[int, ...]] = []
    parts: list[tuple[int, int, int]] = []
    for tile in tiles:
        for start, end in _spans(tile.tokens, max(wanted, cut.shortest)):
            first = len(parts)
            parts.extend(tile.parts(start, end))
            pieces.append((tile.row, tile.rows, first, len(parts), tile.seen, 0, 0, 0))
    table = np.array(pieces, np.int32).reshape(-1, PIECE_COLUMNS)
    return _addressed(table, np.array(parts, np.int32).reshape(-1, PART_COLUMNS), cut.small_rows)


def _tiles(segment: Segment, rows: int) -> Iterator[_Tile]:
    ends = tuple(accumulate(run.length for run in segment.runs))
    tokens = segment.tokens
    for row in range(segment.query_start, segment.query_end, rows):
        end = min(row + rows, segment.query_end)
        if segment.causal:
            seen = tokens - (segment.query_end - 1 - row)
            yield _Tile(row, end - row, seen, seen + end - 1 - row, segment.runs, ends)
        else:
            yield _Tile(row, end - row, tokens, tokens, segment.runs, ends)


def _spans(tokens: int, longest: int) -> Iterator[tuple[int, int]]:
    """[0, tokens) in as few spans of even length as the limit allows."""
    count = max(1, -(-tokens // longest))
    for index in range(count):
        yield tokens * index // count, tokens * (index + 1) // count


def _addressed(pieces: Table, parts: Table, small_rows: int) -> Pieces:
    """Give every piece the place of its result."""
    rows = [np.arange(row, row + count, dtype=np.int32) for row, count in pieces[:, [ROW, ROWS]].tolist()]
    shares = np.bincount(np.concatenate(rows)) if rows else np.zeros(0, np.int64)
    direct = np.array([shares[piece].max() == 1 for piece in rows], bool)
    scratch = np.cumsum(np.where(direct, 0, pieces[:, ROWS]))
    pieces[:, DIRECT] = direct
    pieces[:, TARGET] = np.where(direct, pieces[:, ROW], scratch - pieces[:, ROWS])
    partial = [piece for piece, is_direct in zip(rows, direct, strict=True) if not is_direct]
    owners = np.concatenate(partial) if partial else np.zeros(0, np.int32)
    merged_rows, counts = np.unique(owners, return_counts=True)
    is_small = pieces[:, ROWS] <= small_rows
    return Pieces(
        small=pieces[is_small],
        large=pieces[~is_small],
        parts=parts,
        merged_rows=merged_rows,
        firsts=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        sources=np.argsort(owners, kind="stable").astype(np.int32),
        scratch_rows=len(owners),
    )
