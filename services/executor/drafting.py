"""Which requests get drafts in a step, and how long these may be: as long as a draft pays.

Knows rows, and how often a request's drafts were right. Does not know how they are found.

With a step that costs c * (fixed + rows), a token that was guessed right saves a row of a later step and that row's
part of what is fixed: c * (fixed + rows) / rows. It is right if those drafted before it are: acceptance ** its place.
The row that it takes costs c. So it pays where acceptance ** place > rows / (rows + fixed): easily in a step of one
row, seldom in one of many, never beside a long prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.executor.chunk import Chunk
from services.executor.row_cost import RowCost

MOST_DRAFTED = 8  # for one request in a step
MARGIN = 1.1  # for sampling and keeping the books


class Drafting:
    """Args:
    most_tokens: that are drafted for one request in a step.
    """

    def __init__(self, most_tokens: int = MOST_DRAFTED) -> None:
        self.most_tokens = most_tokens
        self.cost = RowCost()

    def observe(self, chunks: Sequence[Chunk], seconds: float) -> None:
        """A step has been measured."""
        if chunks and all(chunk.end - chunk.start == 1 for chunk in chunks):
            self.cost.observe(sum(chunk.rows for chunk in chunks), seconds)

    def share(self, chunks: Sequence[Chunk], spare_tokens: int) -> Iterator[tuple[Chunk, int]]:
        """Those that decode and may have drafts, and of how many tokens; the surest first.

        Args:
            chunks: of the step, without drafts.
            spare_tokens: for drafts, in all.
        """
        rows = sum(chunk.rows for chunk in chunks)
        ready = [(drafts.acceptance, chunk) for chunk in chunks if (drafts := chunk.lane.drafts) and _may_draft(chunk)]
        for acceptance, chunk in sorted(ready, key=lambda pair: pair[0], reverse=True):
            count = min(self.pays(acceptance, rows), spare_tokens, chunk.lane.left_tokens - 1)
            if count > 0:
                spare_tokens -= count
                yield chunk, count

    def pays(self, acceptance: float, rows: int) -> int:
        """How many drafted tokens pay for a request, in a step that has so many rows without them."""
        least = MARGIN * rows / (rows + self.cost.fixed_rows)
        count, chance = 0, acceptance
        while chance > least and count < self.most_tokens:
            count += 1
            chance *= acceptance
        return count


def _may_draft(chunk: Chunk) -> bool:
    drafts = chunk.lane.drafts
    return drafts is not None and drafts.has_guess and chunk.samples and chunk.rows == 1
