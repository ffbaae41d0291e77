"""What a step computes beyond its plan's slices, out of the tokens that the plan can spare: forced tokens, then drafts.

Knows which of them there are, and counts them. Does not know how room is made.

Forced tokens that are known already stretch a lane's own slice. Those whose log-probabilities are asked for are not
known before they are computed: they go along as drafts, which are sure to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from services.executor.chunk import Chunk
from services.executor.drafting import Drafting
from services.executor.lanes import Lane
from services.executor.nodes import NO_TOKENS, Tokens

Isolated: TypeAlias = Callable[[int], AbstractContextManager[None]]  # of a lane: what fails in it is that lane's affair


class Spare:
    """Args:
    drafting: says when drafts pay; None: there are none.
    jumps: forced tokens are computed together.
    grow: takes room for so many tokens of a lane; whether there was.
    """

    def __init__(self, drafting: Drafting | None, *, jumps: bool, grow: Callable[[Lane, int], bool]) -> None:
        self._drafting = drafting
        self._jumps = jumps
        self._grow = grow
        self.left = 0
        self.drafted_tokens = self.accepted_tokens = self.forced_tokens = 0

    def refill(self, tokens: int) -> None:
        """For the next step."""
        self.left = tokens

    def jump(self, lane: Lane) -> None:
        """Append what has to follow now, if its log-probabilities need not be known."""
        if self._jumps and lane.cursor is not None and not lane.sampling.logprobs:
            self.forced_tokens += lane.jump()

    def stretch(self, lane: Lane, count: int) -> int:
        """The slice of `count` tokens, or a longer one, with forced ones that the plan did not know of."""
        longer = min(lane.known - lane.computed, count + self.left)
        if lane.cursor is None or longer <= count or not self._grow(lane, longer):
            return count
        self.left -= longer - count
        return longer

    def extend(self, chunks: Iterable[Chunk], isolated: Isolated) -> list[Chunk]:
        """The chunks, with what there is to spare behind them."""
        extended = {chunk.lane.number: chunk for chunk in chunks}
        if not self.left:
            return list(extended.values())
        for chunk in list(extended.values()):
            with isolated(chunk.lane.number):
                extended[chunk.lane.number] = self._with_forced(chunk)
        if self._drafting is not None:
            for chunk, count in self._drafting.share(list(extended.values()), self.left):
                with isolated(chunk.lane.number):
                    extended[chunk.lane.number] = self._with_drafts(chunk, count)
        return list(extended.values())

    def accept(self, chunk: Chunk, tokens: int) -> None:
        """So many of its drafts were right."""
        if chunk.is_sure:
            self.forced_tokens += tokens
            chunk.lane.forced_tokens += tokens
        else:
            self.accepted_tokens += tokens

    def _with_forced(self, chunk: Chunk) -> Chunk:
        lane = chunk.lane
        if not self._jumps or not chunk.samples or not lane.forced:
            return chunk
        count = min(self.left, lane.left_tokens - 1)
        return self._with(chunk, np.array(lane.forced[:count], np.int64), is_sure=True)

    def _with_drafts(self, chunk: Chunk, count: int) -> Chunk:
        lane = chunk.lane
        drafts = NO_TOKENS if lane.drafts is None else lane.drafts.draft(lane.tokens, count)
        if lane.cursor is not None:
            drafts = drafts[: lane.cursor.allowed(drafts.tolist())]
        extended = self._with(chunk, drafts)
        self.drafted_tokens += len(extended.drafts)
        return extended

    def _with(self, chunk: Chunk, drafts: Tokens, *, is_sure: bool = False) -> Chunk:
        if not len(drafts) or not self._grow(chunk.lane, chunk.rows + len(drafts)):
            return chunk
        self.left -= len(drafts)
        return replace(chunk, drafts=drafts, is_sure=is_sure)
