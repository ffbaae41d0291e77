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

    @property
    def rows(self) -> int:
        return self.end - self.start + len(self.drafts)

    @property
    def samples(self) -> bool:
        """The chunk reaches the end of what is known, and a token may follow."""
        return self.end == self.lane.known and self.lane.output_tokens < self.lane.max_new_tokens

    @property
    def scored(self) -> range:
        """The prompt positions whose log-probabilities its logits give."""
        return self.lane.unscored(self.end)
