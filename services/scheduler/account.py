"""What one attempt at a request has cost here so far: waits, steps, tokens. For logs: nothing is decided by it.

Knows durations and counts. Does not know where the request waits or runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

# Why a request gives its place up: for want of room, to a higher priority of its tenant, to a tenant of which nothing
# runs, or so that suspects run with nobody else in the step.
Reason: TypeAlias = Literal["kv", "priority", "tenant", "trial"]


@dataclass(slots=True)
class Account:
    queue_s: float = 0.0  # for its turn; it waits again after it has given way
    compile_s: float = 0.0  # for its constraint to be compiled
    forward_steps: int = 0  # in which anything of it was computed
    computed_tokens: int = 0
    preemptions: int = 0
    _waits_since_s: float | None = None  # None: it runs
    _forced_tokens: int = 0  # under its present lane,
    _forced_before: int = 0  # and under those before

    @property
    def forced_tokens(self) -> int:
        return self._forced_before + self._forced_tokens

    def waits(self, now_s: float) -> None:
        self._waits_since_s = now_s

    def compiled(self, now_s: float) -> None:
        """Until now it has waited for that."""
        self.compile_s += self._waited_s(now_s)
        self._waits_since_s = now_s

    def starts(self, now_s: float) -> None:
        """It has a lane, or is over."""
        self.queue_s += self._waited_s(now_s)
        self._waits_since_s = None

    def gives_way(self, served_s: float, *, has_begun: bool) -> None:
        """It waits again, since the last plan that had anything of it was made."""
        self.preemptions += has_begun
        self._forced_before, self._forced_tokens = self.forced_tokens, 0
        self._waits_since_s = served_s

    def steps(self, computed_tokens: int) -> None:
        """A step has computed so many tokens of it."""
        if computed_tokens:
            self.forward_steps += 1
            self.computed_tokens += computed_tokens

    def forces(self, tokens: int) -> None:
        """Of what is reported under its present lane, so many were forced."""
        self._forced_tokens = max(self._forced_tokens, tokens)

    def _waited_s(self, now_s: float) -> float:
        return 0.0 if self._waits_since_s is None else max(now_s - self._waits_since_s, 0.0)
