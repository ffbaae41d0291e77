"""A lane's part of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.executor.lanes import Lane
from services.executor.nodes import NO_TOKENS, Tokens


@dataclass(frozen=True, slots=True)
class Chunk:
    """A lane's tokens [start, end), computed in this step together with drafts of what may follow them.

    The lane has slots for all of them already.
    """

    lane: Lane
    start: int
    end: int
    drafts: Tokens = field(default_factory=lambda: NO_TOKENS)
    is_sure: bool = False  # of its drafts: a constraint forces them

    @property
    def rows(self) -> int:
        return self.end - self.start + len(self.drafts)

    @property
    def samples(self) -> bool:
        """The chunk reaches the end of what is known, and a token may follow."""
        lane = self.lane
        return self.end == lane.known and lane.output_tokens < lane.max_new_tokens and not lane.is_complete

    @property
    def scored(self) -> range:
        """The prompt positions whose log-probabilities its logits give."""
        return self.lane.unscored(self.end)
