"""A request as the scheduler sees it: counts of tokens, where it waits or runs, who streams it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from shared import wire

if TYPE_CHECKING:
    from services.scheduler.lane import Lane

Key: TypeAlias = tuple[str, str]  # gateway, request_id

GROWTH_TOKENS = 128  # kept free for the output of each running request, so that preemption is rare


@dataclass(slots=True, eq=False)
class Request:
    """One attempt at a request. Without a lane it lies in the waiting queue."""

    submit: wire.Submit
    order: int  # of arrival, that of its first attempt here
    arrived_s: float
    max_new_tokens: int  # as asked for, or less: what the executors have room for
    generated: list[int] = field(default_factory=list)  # by this attempt, behind the resumed ones
    cached_tokens: int | None = None  # found in the cache by the first slice of this attempt
    lane: Lane | None = None
    detokenizer: str | None = None  # chosen at admission, for good
    streamed: bool = False  # something of this attempt has been sent to the detokenizer
    unlisted_audits: int = 0  # in a row, in which the gateway no longer held it open

    @property
    def key(self) -> Key:
        return self.submit.gateway, self.submit.request_id

    @property
    def attempt(self) -> int:
        return self.submit.attempt

    @property
    def priority(self) -> int:
        return self.submit.priority

    @property
    def prompt_tokens(self) -> int:
        return len(self.submit.prompt_token_ids)

    @property
    def output_tokens(self) -> int:
        return len(self.submit.resume_token_ids) + len(self.generated)

    @property
    def known_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    @property
    def most_tokens(self) -> int:
        """What it can grow to."""
        return self.prompt_tokens + max(self.max_new_tokens, self.output_tokens)

    @property
    def likely_tokens(self) -> int:
        """What it will want room for soon."""
        return min(self.known_tokens + GROWTH_TOKENS, self.most_tokens)

    @property
    def hint_tokens(self) -> int:
        """What its executor would find in the cache, as far as that is known."""
        return (self.lane.hint_tokens or 0) if self.lane is not None else 0

    @property
    def is_running(self) -> bool:
        """Holds KV, or will by the plans in flight."""
        return self.lane is not None and self.lane.is_running

    def is_overdue(self, unix_s: float) -> bool:
        return self.submit.deadline_s is not None and self.submit.deadline_s <= unix_s

    def leave_lane(self) -> None:
        """The executor forgets it; the lane's number is released in the next plan."""
        if self.lane is not None:
            self.lane.ended = True
            self.lane = None

    def admit(self, lane: int) -> wire.Admit:
        """For an executor that does not know it: all that is known of it."""
        submit = self.submit
        return wire.Admit(
            lane,
            submit.request_id,
            submit.prompt_token_ids,
            submit.sampling,
            self.max_new_tokens,
            (*submit.resume_token_ids, *self.generated),
            submit.constraint,
            submit.namespace,
            submit.priority,
        )

    def open(self) -> wire.Open:
        submit = self.submit
        return wire.Open(
            submit.request_id,
            submit.attempt,
            submit.gateway,
            submit.text,
            submit.sampling.logprobs,
            submit.resume_token_ids,
            submit.text_offset,
        )

    def update(self, outcome: wire.Outcome) -> wire.TokenUpdate:
        """What the detokenizer gets of an outcome; its tokens are counted in `generated` only afterwards."""
        return wire.TokenUpdate(
            *self.key,
            self.attempt,
            self.output_tokens,
            outcome.new_token_ids,
            self._counts(),
            outcome.logprobs,
            outcome.finish_reason,
            outcome.matched_stop,
            outcome.error,
        )

    def ending(self, reason: wire.FinishReason, error: wire.Error | None = None) -> wire.TokenUpdate:
        """A terminal that no executor has a part in."""
        return wire.TokenUpdate(
            *self.key,
            self.attempt,
            self.output_tokens,
            (),
            self._counts(),
            finish_reason=reason,
            error=error,
        )

    def _counts(self) -> wire.Counts:
        return wire.Counts(self.prompt_tokens, min(self.cached_tokens or 0, self.prompt_tokens))
