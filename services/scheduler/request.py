"""A request as the scheduler sees it: counts of tokens, where it waits or runs, who streams it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from services.scheduler.account import Account
from services.scheduler.tokens import Tokens, as_tokens
from shared import wire
from shared.constraints import key_of
from shared.namespaces import tenant_of

if TYPE_CHECKING:
    from services.scheduler.lane import Lane

Key: TypeAlias = tuple[str, str]  # gateway, request_id

GROWTH_TOKENS = 128  # kept free for the output of each running request, so that preemption is rare


@dataclass(slots=True, eq=False)
class Request:
    """One attempt at a request. It waits at an executor (or at none, as long as there is none), or runs in a lane."""

    submit: wire.Submit
    order: int  # of arrival, that of its first attempt here
    arrived_s: float
    max_new_tokens: int  # as asked for, or less: what the executors have room for
    expires_s: float | None = None
    tenant: str = field(init=False)
    prompt_tokens: int = field(init=False)
    constraint_key: str | None = field(init=False)  # None: any output will do
    tokens: Tokens = field(init=False)  # known when it began to wait; all but the last may come from a cache
    hint_tokens: int = 0  # while it waits: how many of these its executor's cache holds
    generated: list[int] = field(default_factory=list)  # by this attempt, behind the resumed ones
    cached_tokens: int | None = None  # found in the cache by the first slice of this attempt
    executor: str | None = None  # where it waits or runs
    compiled_by: str | None = None  # the executor that last had its constraint ready
    executor_name: str = ""  # where it has run last, for people
    lane: Lane | None = None
    detokenizer: str | None = None  # chosen at admission, for good
    scored: bool = False  # the log-probabilities of its prompt that are asked for are there
    streamed: bool = False  # something of this attempt has been sent to the detokenizer
    unlisted_audits: int = 0  # in a row, in which the gateway no longer held it open
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        self.tenant = tenant_of(self.submit.namespace)
        self.prompt_tokens = len(self.submit.prompt_token_ids)
        constraint = self.submit.constraint
        self.constraint_key = None if constraint is None else key_of(constraint)
        self.tokens = self._matchable()

    @property
    def key(self) -> Key:
        return self.submit.gateway, self.submit.request_id

    @property
    def attempt(self) -> int:
        return self.submit.attempt

    @property
    def namespace(self) -> str:
        return self.submit.namespace

    @property
    def priority(self) -> int:
        return self.submit.priority

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

    def may_run_at(self, executor: str) -> bool:
        """Whether nothing has to be compiled for it there, as far as is known."""
        return self.constraint_key is None or self.compiled_by == executor

    def is_overdue(self, now_s: float) -> bool:
        return self.expires_s is not None and self.expires_s <= now_s

    def leave_lane(self) -> None:
        """The executor forgets it; the lane's number is released in the next plan."""
        if self.lane is not None:
            self.lane.ended = True
            self.lane = self.executor = None

    def give_way(self) -> None:
        """Leave the lane, to wait again with what is known by now."""
        if self.lane is not None:
            self.account.gives_way(self.lane.served_s, has_begun=self.lane.settled)
        self.leave_lane()
        self.tokens = self._matchable()

    def _matchable(self) -> Tokens:
        """All that is known; but log-probabilities of the prompt have to be computed from the first one on."""
        submit = self.submit
        tokens = as_tokens((*submit.prompt_token_ids, *submit.resume_token_ids, *self.generated))
        return tokens[: self._sampling.prompt_logprobs_from]

    @property
    def _sampling(self) -> wire.Sampling:
        """What is still to be done of it."""
        sampling = self.submit.sampling
        return msgspec.structs.replace(sampling, prompt_logprobs_from=None) if self.scored else sampling

    def admit(self, lane: int) -> wire.Admit:
        """For an executor that does not know it: all that is known of it."""
        submit = self.submit
        return wire.Admit(
            lane,
            submit.request_id,
            submit.prompt_token_ids,
            self._sampling,
            self.max_new_tokens,
            (*submit.resume_token_ids, *self.generated),
            submit.constraint,
            submit.namespace,
            submit.priority,
            self.cached_tokens is not None or submit.attempt > 1,
            submit.attempt,
            submit.trace_id,
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
            submit.trace_id,
        )

    def update(self, outcome: wire.Outcome) -> wire.TokenUpdate:
        """What the detokenizer gets of an outcome; its tokens are counted in `generated` only afterwards."""
        return wire.TokenUpdate(
            *self.key,
            self.attempt,
            self.output_tokens,
            outcome.new_token_ids,
            self.counts(),
            outcome.logprobs,
            outcome.finish_reason,
            outcome.matched_stop,
            outcome.error,
            outcome.prompt_logprobs,
        )

    def ending(self, reason: wire.FinishReason, error: wire.Error | None = None) -> wire.TokenUpdate:
        """A terminal that no executor has a part in."""
        return wire.TokenUpdate(
            *self.key,
            self.attempt,
            self.output_tokens,
            (),
            self.counts(),
            finish_reason=reason,
            error=error,
        )

    def counts(self) -> wire.Counts:
        account = self.account
        return wire.Counts(
            self.prompt_tokens,
            min(self.cached_tokens or 0, self.prompt_tokens),
            self.executor_name,
            account.forward_steps,
            account.forced_tokens,
            account.preemptions,
            account.queue_s,
            account.compile_s,
        )
