"""One open request of the journal: what the client asked and all that is known of the answer so far.

That is enough to submit it anew at any moment. Offsets count from the request's start: tokens and characters [0, held)
are here and delivered; an update brings [offset, offset + n), of which the part below `held` is a repetition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from services.gateway.generation import Delta, GenerateRequest, Usage, Work
from shared import wire
from shared.namespaces import tenant_of

Phase = Literal["waiting", "encoding", "submitted"]

SETTLED_S = 2.0  # a submission that is older must be known to the scheduler


@dataclass
class OpenRequest:
    request_id: str
    request: GenerateRequest
    expires_s: float
    progressed_s: float
    attempt: int = 1  # the present one: what speaks of another is stale
    phase: Phase = "waiting"
    submitted_s: float | None = None  # when this attempt was
    has_output: bool = False  # a token of this attempt has arrived
    fruitless: int = 0  # attempts that were lost since the last output
    tokenizer: str | None = None  # by name: who encoded it last
    executor: str | None = None  # by name: where it runs, or ran last
    prompt_token_ids: tuple[int, ...] | None = None  # once accepted
    max_new_tokens: int | None = None  # as accepted
    token_ids: list[int] = field(default_factory=list)
    text_length: int = 0
    scored: bool = False  # the log-probabilities of the prompt that are asked for are delivered
    trace_id: str = ""
    wants_tokenizer_s: float | None = None  # since then
    past_work: Work = field(default_factory=Work)  # of the attempts that are over
    present_work: Work = field(default_factory=Work)
    counts: wire.Counts | None = None  # of the first attempt that was heard of: later ones hit their own tokens

    @property
    def tenant(self) -> str:
        return tenant_of(self.request.namespace)

    def is_called(self, tenant: str, client_id: str) -> bool:
        return self.request.client_id == client_id and self.tenant == tenant

    def advance(self, now_s: float) -> None:
        """Give up the present attempt."""
        self.ends(now_s)
        self.past_work, self.present_work = self.work, Work()
        self.attempt += 1
        self.phase = "waiting"
        self.submitted_s = None
        self.has_output = False

    def submitted(self, now_s: float) -> None:
        self.phase = "submitted"
        self.progressed_s = now_s
        if self.submitted_s is None:
            self.submitted_s = now_s

    def reaches(self, update: wire.TextUpdate) -> bool:
        """Whether the update begins at or before the end of what is here: no gap."""
        return update.token_offset <= len(self.token_ids) and update.text_offset <= self.text_length

    def absorb(self, update: wire.TextUpdate, now_s: float) -> Delta:
        """Take in what is new of an update that reaches, and return it."""
        skip = len(self.token_ids) - update.token_offset
        token_ids = update.token_ids[skip:]
        text = update.text[self.text_length - update.text_offset :]
        self.token_ids.extend(token_ids)
        self.text_length += len(text)
        self.progressed_s = now_s
        self.has_output |= bool(update.token_ids)
        self.fruitless = 0 if token_ids else self.fruitless
        self.counts = self.counts or update.counts
        self.executor = update.counts.executor or self.executor
        self.worked(update.counts)
        return Delta(text, token_ids, self.usage, update.logprobs[skip:], self._scores(update))

    @property
    def work(self) -> Work:
        return self.past_work.plus(self.present_work)

    def wants_tokenizer(self, now_s: float) -> None:
        self.wants_tokenizer_s = now_s

    def encoded(self, encode_s: float, now_s: float) -> None:
        """What a tokenizer has not spent on it, it has waited for one, and on the way there and back."""
        self.present_work = msgspec.structs.replace(self.present_work, encode_s=encode_s)
        self._waited_until(now_s - encode_s)

    def ends(self, now_s: float) -> None:
        """The present attempt does: one that has not come to the scheduler has waited for a tokenizer until now."""
        if self.phase != "submitted":
            self._waited_until(now_s)

    def _waited_until(self, now_s: float) -> None:
        if self.wants_tokenizer_s is not None:
            wait_s = max(now_s - self.wants_tokenizer_s, 0.0)
            self.present_work = msgspec.structs.replace(self.present_work, tokenizer_wait_s=wait_s)
            self.wants_tokenizer_s = None

    def worked(self, counts: wire.Counts) -> None:
        """What the present attempt has cost by now."""
        self.present_work = msgspec.structs.replace(
            self.present_work,
            forward_steps=counts.forward_steps,
            forced_tokens=counts.forced_tokens,
            preemptions=counts.preemptions,
            queue_s=counts.queue_s,
            compile_s=counts.compile_s,
        )

    def _scores(self, update: wire.TextUpdate) -> tuple[wire.TextLogprob, ...]:
        """Once: another attempt may have computed them too."""
        if self.scored:
            return ()
        self.scored = bool(update.prompt_logprobs)
        return update.prompt_logprobs

    @property
    def _sampling(self) -> wire.Sampling:
        """What is still to be done of it."""
        sampling = self.request.sampling
        return msgspec.structs.replace(sampling, prompt_logprobs_from=None) if self.scored else sampling

    @property
    def usage(self) -> Usage:
        counts = self.counts or wire.Counts(0, 0)  # nothing was computed yet
        cached_tokens = min(counts.cached_tokens, counts.prompt_tokens)
        return Usage(counts.prompt_tokens, cached_tokens, len(self.token_ids))

    def encode(self, now_s: float) -> wire.Encode:
        request = self.request
        return wire.Encode(
            self.request_id,
            self.attempt,
            self._sampling,
            request.text,
            prompt=request.prompt,
            messages=request.messages,
            tools=request.tools,
            prompt_token_ids=request.prompt_token_ids,
            resume_token_ids=tuple(self.token_ids),
            text_offset=self.text_length,
            max_new_tokens=request.max_new_tokens,
            constraint=request.constraint,
            namespace=request.namespace,
            priority=request.priority,
            time_left_s=self.expires_s - now_s,
            template_options=request.template_options,
            trace_id=self.trace_id,
            samples=request.samples,
        )

    def submit(self, gateway: str, now_s: float) -> wire.Submit:
        """Only once accepted."""
        assert self.prompt_token_ids is not None
        assert self.max_new_tokens is not None
        return wire.Submit(
            self.request_id,
            self.attempt,
            gateway,
            self.prompt_token_ids,
            self._sampling,
            self.request.text,
            self.max_new_tokens,
            resume_token_ids=tuple(self.token_ids),
            text_offset=self.text_length,
            constraint=self.request.constraint,
            namespace=self.request.namespace,
            priority=self.request.priority,
            time_left_s=self.expires_s - now_s,
            trace_id=self.trace_id,
        )

    def audit_entry(self, now_s: float) -> wire.AuditEntry:
        settled = self.submitted_s is not None and now_s - self.submitted_s >= SETTLED_S
        return wire.AuditEntry(self.request_id, self.attempt, settled)
