"""A running request's place on one executor: what the executor has reported of it, what the plans in flight will add.

Knows counts of tokens. Does not know slots, the tree or other lanes. Between a plan and its result the scheduler goes
by belief: a slice computes what is known and no more, and one token is sampled when all that is known is computed.
With tokens to spare a plan may bring more than that, of drafts and of tokens that a constraint leaves no choice about.
What is known of these is believed to be computed by what was spared for them. So until a plan's result is there, where
its slices end is a guess, and room is counted for the worst.

    first slice planned ──reported──► settled ──over, gave way──► ended ──released──► gone
            └──────────── not run: ended, and its request waits again ──────┘
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from services.scheduler.budget import Work
from services.scheduler.request import Request
from shared import wire
from shared.tokens import pages_down, pages_up

RECENT_OUTCOMES = 16
FRESH_FORCED_TOKENS = 6  # for a start
MORE_FORCED_TOKENS = 2  # than came lately: where they are seen only once they are computed, that is how they grow


class Slice(NamedTuple):
    seq: int
    num_tokens: int
    may_exceed: bool = False  # it may compute more than that
    forced_tokens: int = 0  # beyond that, if so many are known


class Belief(NamedTuple):
    """Once all plans in flight have run."""

    computed_tokens: int
    known_tokens: int


@dataclass(slots=True, eq=False)
class Lane:
    number: int
    executor: str
    request: Request
    page_size: int
    admitted_seq: int  # an outcome of an earlier plan is another request's, which had this number before
    hint_tokens: int  # what its first slice is believed to find in the cache
    start_tokens: int = field(init=False)  # known when it started
    settled: bool = False  # the first slice is reported, so computed_tokens is exact
    computed_tokens: int = 0  # as reported
    in_flight: deque[Slice] = field(default_factory=deque)
    served_seq: int = 0  # the plan of its latest slice
    served_s: float = 0.0  # when that was made
    lent_priority: int | None = None  # of those that wait for what it computes
    declines: int = 0  # in a row
    held: bool = False  # declined or waiting: not planned before the next tick
    ended: bool = False
    gained: deque[int] = field(  # lately, by outcomes that brought any tokens: those beyond the first
        default_factory=lambda: deque((FRESH_FORCED_TOKENS,), RECENT_OUTCOMES)
    )

    def __post_init__(self) -> None:
        self.start_tokens = self.request.known_tokens

    @property
    def priority(self) -> int:
        own = self.request.priority
        return own if self.lent_priority is None else max(own, self.lent_priority)

    @property
    def order(self) -> int:
        return self.request.order

    @property
    def failed_to_start(self) -> bool:
        """Its first slice was not run, and has left nothing."""
        return not (self.settled or self.in_flight or self.ended)

    @property
    def is_filling(self) -> bool:
        """Not all that was known of it when it started is reported as computed."""
        return self.computed_tokens < len(self.request.tokens)

    # --- planning ----------------------------------------------------------------------------------------------------

    def belief(self) -> Belief:
        computed = self.computed_tokens if self.settled else self.hint_tokens
        known = self.request.known_tokens
        for slice_ in self.in_flight:
            computed = min(computed + slice_.num_tokens + slice_.forced_tokens, known)
            if computed == known:
                known += 1
        return Belief(computed, known)

    def shared_before(self, seq: int) -> int:
        """What others can find, in whole pages, of what was known of it when it started, once plan seq begins."""
        computed = self.computed_tokens if self.settled else self.hint_tokens
        computed += sum(slice_.num_tokens for slice_ in self.in_flight if slice_.seq < seq)
        return pages_down(min(computed, len(self.request.tokens)), self.page_size)

    def remaining_tokens(self) -> int:
        """Tokens that are known by then and not computed; 0 if the last one is believed to be sampled.

        That a request is over is for the executor to say, so what it has reported as known is always worth a slice.
        """
        request, (computed, known) = self.request, self.belief()
        if known > request.known_tokens and known - request.prompt_tokens >= request.max_new_tokens:
            return 0
        return known - computed

    def prompt_left(self) -> int:
        """Tokens to compute before it generates any; 0 for one that decodes, however many of its own are known."""
        remaining = self.remaining_tokens()
        return 0 if remaining == 1 or self.belief().computed_tokens >= self.start_tokens else remaining

    def forced_ask(self, most: int) -> int:
        """Tokens to spare for what its constraint leaves no choice about: a little more than came at once lately."""
        if self.request.constraint_key is None:
            return 0
        return min(max(self.gained) + MORE_FORCED_TOKENS, most)

    @property
    def _is_exact(self) -> bool:
        """Whether it is known where the next slice starts: else that is for the cache or for spare tokens to say."""
        return self.settled and not any(slice_.may_exceed for slice_ in self.in_flight)

    def context_tokens(self) -> int:
        """How far back the next slice has to look."""
        return self.belief().computed_tokens

    def growth_tokens(self, num_tokens: int) -> int:
        """The most room that one more slice can take, in whole pages, wherever it starts."""
        if not self._is_exact:
            return pages_up(num_tokens + self.page_size - 1, self.page_size)
        computed, known = self.belief()
        end = min(computed + num_tokens, known)
        return pages_up(end, self.page_size) - pages_up(computed, self.page_size)

    def tokens_within(self, room_tokens: int) -> int:
        """The longest slice whose growth fits."""
        room = pages_down(max(room_tokens, 0), self.page_size)
        if not self._is_exact:
            return max(room - (self.page_size - 1), 0)
        computed = self.belief().computed_tokens
        return pages_up(computed, self.page_size) + room - computed

    def outlook_tokens(self) -> int:
        """Room that it will want beyond the plans in flight: the rest of its prompt and some output."""
        computed, known = self.belief()
        end = max(known, self.request.likely_tokens)
        held = computed if self.settled else self.request.known_tokens
        return max(pages_up(end, self.page_size) - pages_up(held, self.page_size), 0)

    def reach_tokens(self, beyond_tokens: int) -> int:
        """The most that is computed of it once the plans in flight have run.

        Args:
            beyond_tokens: what a slice that may exceed its length can add.
        """
        computed = self.computed_tokens if self.settled else self.hint_tokens
        return computed + sum(slice_.num_tokens + beyond_tokens * slice_.may_exceed for slice_ in self.in_flight)

    def plan(self, seq: int, num_tokens: int, now_s: float) -> None:
        self.in_flight.append(Slice(seq, num_tokens))
        self.served_seq, self.served_s = seq, now_s

    def allow_more(self, forced_tokens: int = 0) -> None:
        """The slice that was planned last may exceed its length, by so many forced tokens if they are known."""
        self.in_flight[-1] = self.in_flight[-1]._replace(may_exceed=True, forced_tokens=forced_tokens)

    def planned_tokens(self, seq: int) -> int:
        """Of its slice in this plan."""
        return sum(slice_.num_tokens for slice_ in self.in_flight if slice_.seq == seq)

    # --- what became of it -------------------------------------------------------------------------------------------

    def apply(self, outcome: wire.Outcome) -> Work:
        """Take over the figures of an outcome. Returns the work that it stands for."""
        self.held = outcome.declined or outcome.waiting is not None
        self.declines = self.declines + 1 if outcome.declined else 0
        if outcome.new_token_ids:
            self.gained.append(len(outcome.new_token_ids) - 1)
        if not outcome.computed_tokens:
            return Work()
        start = self.computed_tokens if self.settled else outcome.cached_tokens
        self.settled, self.computed_tokens = True, outcome.computed_tokens
        return Work().plus(outcome.computed_tokens - start, start) if outcome.computed_tokens > start else Work()

    def land(self, seq: int) -> None:
        """The plan has run, whether it reported this lane or not."""
        while self.in_flight and self.in_flight[0].seq <= seq:
            self.in_flight.popleft()
