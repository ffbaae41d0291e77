"""The journal of open requests: a pure state machine that sees each one through to exactly one end.

It is the end-to-end rule. Whatever stage dies, hangs or forgets, what is known here of a request is enough to submit
it again, and the client sees a pause. Knows no clock (time comes with events), no socket, no task and no HTTP.

An attempt goes waiting → encoding → submitted; one whose prompt ids are known skips the tokenizer. A lost attempt is
followed by the next, and from then on what arrives about the old one is stale and answered with an Abort.
"""

from __future__ import annotations

from typing import Literal, assert_never

from services.gateway.errors import CLIENT_CLOSED_STATUS
from services.gateway.events import (
    Aborted,
    ClientGone,
    Command,
    Deliver,
    EncodedBy,
    EncodeFailedBy,
    Event,
    Finish,
    HubJoined,
    HubLeft,
    HubProgressed,
    Opened,
    Retrying,
    Stopping,
    Tick,
    ToHub,
    TokenizerJoined,
    TokenizerLeft,
    TokenizerReady,
    ToTokenizer,
)
from services.gateway.generation import Ending
from services.gateway.open_request import OpenRequest
from services.gateway.tokenizer_pool import TokenizerPool
from services.gateway.turns import Turns
from shared import wire

SURVEY_S = 1.0  # how often stalls are looked for and the audit is sent
STALE_REPEAT_S = 1.0  # how often one stale attempt is answered
FIRST_REST_S = 0.25  # after a second loss without any output; after each further one twice as long
LONGEST_REST_S = 4.0

CLIENT_CLOSED = wire.Error("the client closed the connection", "client_closed", status=CLIENT_CLOSED_STATUS)
DEADLINE = wire.Error("the request did not end before its deadline", "deadline_exceeded", status=504)
STOPPING = wire.Error("the server is shutting down", "shutting_down", status=503)
ABORTED = wire.Error("the request was aborted by the server", "aborted", status=500)


class Journal:
    """Args:
    gateway: this gateway's identity on the hub.
    max_attempts: of a request in a row that bring no output before it is given up; those that an executor took along
        do not count, since the scheduler finds out whose fault that was.
    stall_timeout_s: a request without progress for so long is submitted again.
    """

    def __init__(self, gateway: str, *, max_attempts: int, stall_timeout_s: float) -> None:
        self._gateway = gateway
        self._max_attempts = max_attempts
        self._stall_timeout_s = stall_timeout_s
        self._now_s = 0.0
        self._surveyed_s = float("-inf")
        self._open: dict[str, OpenRequest] = {}
        self._tokenizers = TokenizerPool()
        self._hub: str | None = None
        self._hub_seq = 0
        self._hub_progressed_s = 0.0
        # A waiting request is in exactly one of these; the first two are queues, the third says when to move on.
        self._to_encode = Turns()
        self._to_submit: dict[str, None] = {}
        self._resting: dict[str, float] = {}
        self._quiet_until_s: dict[tuple[str, int], float] = {}  # of attempts that are over, by (request_id, attempt)

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def handle(self, event: Event, at_s: float | None = None) -> list[Command]:
        """Take one event in; the commands are to be carried out in order.

        Args:
            at_s: when it came; None: about the time of the last tick.
        """
        self._now_s = self._now_s if at_s is None else at_s
        return self._decide(event) + self._start_waiting()

    def _decide(self, event: Event) -> list[Command]:
        match event:
            case Opened():
                return self._on_opened(event)
            case ClientGone(request_id):
                return self._abandon(request_id, CLIENT_CLOSED, "client")
            case Aborted(tenant, client_id):
                return self._abort(tenant, client_id)
            case Stopping():
                return [c for request_id in list(self._open) for c in self._abandon(request_id, STOPPING, "client")]
            case Tick(now_s):
                return self._on_tick(now_s)
            case TokenizerJoined(peer, name):
                self._tokenizers.joined(peer, name)
                return []
            case TokenizerReady(peer, credits):
                self._tokenizers.ready(peer, credits)
                return []
            case TokenizerLeft(peer):
                return self._on_tokenizer_left(peer)
            case EncodedBy(peer, message):
                return self._on_encoded(peer, message)
            case EncodeFailedBy(peer, message):
                self._tokenizers.answered(peer, (message.request_id, message.attempt))
                return self._on_refused(message)
            case HubJoined(peer):
                return self._on_hub_joined(peer)
            case HubLeft(peer):
                self._hub = None if self._hub == peer else self._hub
                return []
            case HubProgressed(last_seq):
                self._on_hub_progressed(last_seq)
                return []
            case wire.Accepted():
                return self._on_accepted(event)
            case wire.Rejected():
                return self._on_refused(event)
            case wire.Lost():
                return self._on_lost(event)
            case wire.TextUpdate():
                return self._on_text(event)
            case _:
                assert_never(event)

    # --- the client ---------------------------------------------------------------------------------------------------

    def _on_opened(self, event: Opened) -> list[Command]:
        entry = OpenRequest(event.request_id, event.request, event.expires_s, self._now_s, trace_id=event.trace_id)
        self._open[event.request_id] = entry
        self._queue(entry)
        return []

    def _abandon(self, request_id: str, error: wire.Error, reason: wire.AbortReason) -> list[Command]:
        """End a request from this side, and the work on it."""
        entry = self._open.get(request_id)
        return self._recall(entry, reason) + self._fail(entry, error) if entry is not None else []

    def _abort(self, tenant: str, client_id: str) -> list[Command]:
        meant = [entry for entry in self._open.values() if entry.is_called(tenant, client_id)]
        return [
            command for entry in meant for command in self._recall(entry, "client") + self._end(entry, "abort", None)
        ]

    def _recall(self, entry: OpenRequest, reason: wire.AbortReason) -> list[Command]:
        was_sent = entry.phase != "waiting" or entry.attempt > 1
        abort = wire.Abort(entry.request_id, entry.attempt, self._gateway, reason)
        return self._to_hub(abort) if was_sent else []

    # --- time ---------------------------------------------------------------------------------------------------------

    def _on_tick(self, now_s: float) -> list[Command]:
        self._now_s = now_s
        for request_id in [request_id for request_id, until_s in self._resting.items() if until_s <= now_s]:
            del self._resting[request_id]
            self._queue(self._open[request_id])
        overdue = [entry.request_id for entry in self._open.values() if entry.expires_s <= now_s]
        commands = [command for request_id in overdue for command in self._abandon(request_id, DEADLINE, "deadline")]
        if now_s - self._surveyed_s >= SURVEY_S:
            self._surveyed_s = now_s
            commands += self._survey()
        return commands

    def _survey(self) -> list[Command]:
        self._quiet_until_s = {key: until_s for key, until_s in self._quiet_until_s.items() if until_s > self._now_s}
        self._tokenizers.expire(taken_before_s=self._now_s - self._stall_timeout_s)
        commands: list[Command] = []
        for entry in list(self._open.values()):
            if self._is_stalled(entry):
                commands += self._retry(entry, f"no progress for {self._stall_timeout_s:g} s")
        sent = [entry.audit_entry(self._now_s) for entry in self._open.values() if entry.phase != "waiting"]
        return commands + self._to_hub(wire.Audit(tuple(sent)))

    def _is_stalled(self, entry: OpenRequest) -> bool:
        """Output must flow; before the first token it is enough that the scheduler works through its queue."""
        if entry.phase == "waiting":
            return False
        progressed_s = entry.progressed_s
        if entry.phase == "submitted" and not entry.has_output:
            progressed_s = max(progressed_s, self._hub_progressed_s)
        return self._now_s - progressed_s > self._stall_timeout_s

    # --- tokenizers ---------------------------------------------------------------------------------------------------

    def _on_tokenizer_left(self, peer: str) -> list[Command]:
        commands: list[Command] = []
        for request_id, attempt in self._tokenizers.left(peer):
            entry = self._current(request_id, attempt)
            if entry is not None and entry.phase == "encoding":
                commands += self._retry(entry, "its tokenizer left")
        return commands

    def _on_encoded(self, peer: str, message: wire.Encoded) -> list[Command]:
        self._tokenizers.answered(peer, (message.request_id, message.attempt))
        entry = self._current(message.request_id, message.attempt)
        if entry is None:
            return self._stale(message.request_id, message.attempt)
        entry.submitted(self._now_s)
        entry.encoded(message.encode_s, self._now_s)
        return []

    # --- the scheduler ------------------------------------------------------------------------------------------------

    def _on_hub_joined(self, peer: str) -> list[Command]:
        """What tokenizers hold at this moment is not lost: they submit it to the new hub, or the audit finds out."""
        self._hub = peer
        self._hub_seq = 0
        self._hub_progressed_s = self._now_s
        submitted = [entry for entry in self._open.values() if entry.phase == "submitted"]
        return [command for entry in submitted for command in self._retry(entry, "the scheduler is a new one")]

    def _on_hub_progressed(self, last_seq: int) -> None:
        if last_seq != self._hub_seq:
            self._hub_seq = last_seq
            self._hub_progressed_s = self._now_s

    def _on_accepted(self, message: wire.Accepted) -> list[Command]:
        entry = self._current(message.request_id, message.attempt)
        if entry is None:
            return self._stale(message.request_id, message.attempt)
        entry.submitted(self._now_s)
        entry.prompt_token_ids = message.prompt_token_ids
        entry.max_new_tokens = message.max_new_tokens
        return []

    def _on_refused(self, message: wire.Rejected | wire.EncodeFailed) -> list[Command]:
        entry = self._current(message.request_id, message.attempt)
        if entry is None:
            return []
        if isinstance(message, wire.Rejected) and message.counts is not None:
            entry.worked(message.counts)
        return self._fail(entry, message.error)

    def _on_lost(self, message: wire.Lost) -> list[Command]:
        entry = self._current(message.request_id, message.attempt)
        if entry is None:
            return []
        return self._again(entry, message.reason) if message.excused else self._retry(entry, message.reason)

    # --- output -------------------------------------------------------------------------------------------------------

    def _on_text(self, update: wire.TextUpdate) -> list[Command]:
        entry = self._current(update.request_id, update.attempt)
        if entry is None:
            return self._stale(update.request_id, update.attempt)
        if not entry.reaches(update):
            return self._retry(entry, "a gap in its output")
        entry.submitted(self._now_s)
        delta = entry.absorb(update, self._now_s)
        has_news = bool(delta.text or delta.token_ids or delta.prompt_logprobs)
        delivery: list[Command] = [Deliver(entry.request_id, delta)] if has_news else []
        match update.finish_reason:
            case None:
                return delivery
            case "stop" | "length" as finish_reason:
                return delivery + self._end(entry, finish_reason, update.matched_stop)
            case "abort" | "error":
                return delivery + self._fail(entry, update.error or ABORTED)
            case _:
                assert_never(update.finish_reason)

    # --- moves --------------------------------------------------------------------------------------------------------

    def _current(self, request_id: str, attempt: int) -> OpenRequest | None:
        entry = self._open.get(request_id)
        return entry if entry is not None and entry.attempt == attempt else None

    def _queue(self, entry: OpenRequest) -> None:
        if entry.prompt_token_ids is None:
            entry.wants_tokenizer(self._now_s)
            self._to_encode.add(entry.tenant, entry.request_id)
        else:
            self._to_submit[entry.request_id] = None

    def _start_waiting(self) -> list[Command]:
        """Without a scheduler everything waits: it is refused by nobody and starts when there is one."""
        commands: list[Command] = []
        if self._hub is None:
            return commands
        while self._to_submit:
            entry = self._open[_first(self._to_submit)]
            del self._to_submit[entry.request_id]
            commands += self._submit(entry)
        while self._to_encode:
            entry = self._open[self._to_encode.next()]
            peer = self._tokenizers.take((entry.request_id, entry.attempt), self._now_s)
            if peer is None:
                break
            self._to_encode.take()
            commands += self._encode(entry, peer)
        return commands

    def _encode(self, entry: OpenRequest, peer: str) -> list[Command]:
        entry.phase = "encoding"
        entry.progressed_s = self._now_s
        entry.tokenizer = self._tokenizers.name(peer)
        return [ToTokenizer(peer, entry.encode(self._now_s))]

    def _submit(self, entry: OpenRequest) -> list[Command]:
        entry.submitted(self._now_s)
        return self._to_hub(entry.submit(self._gateway, self._now_s))

    def _retry(self, entry: OpenRequest, reason: str) -> list[Command]:
        """The attempt is lost. Later retries rest before they start, so that a stage has time to come back."""
        entry.fruitless += 1
        if entry.fruitless >= self._max_attempts:
            message = f"given up after {entry.attempt} attempts, the last one because of: {reason}"
            return self._abandon(entry.request_id, wire.Error(message, "attempts_exhausted", status=500), "stale")
        if entry.fruitless == 1:
            return self._again(entry, reason)
        entry.advance(self._now_s)
        rest_s = min(FIRST_REST_S * 2 ** (entry.fruitless - 2), LONGEST_REST_S)
        self._resting[entry.request_id] = self._now_s + rest_s
        return [Retrying(entry.request_id, entry.attempt, reason, entry.trace_id)]

    def _again(self, entry: OpenRequest, reason: str) -> list[Command]:
        """The next attempt starts at once."""
        entry.advance(self._now_s)
        self._queue(entry)
        return [Retrying(entry.request_id, entry.attempt, reason, entry.trace_id)]

    def _fail(self, entry: OpenRequest, error: wire.Error) -> list[Command]:
        self._forget(entry)
        ending = Ending(
            entry.usage, entry.attempt, entry.tokenizer, error=error, executor=entry.executor, work=entry.work
        )
        return [Finish(entry.request_id, ending)]

    def _end(
        self, entry: OpenRequest, finish_reason: Literal["stop", "length", "abort"], matched_stop: int | str | None
    ) -> list[Command]:
        self._forget(entry)
        ending = Ending(
            entry.usage,
            entry.attempt,
            entry.tokenizer,
            finish_reason,
            matched_stop,
            executor=entry.executor,
            work=entry.work,
        )
        return [Finish(entry.request_id, ending)]

    def _forget(self, entry: OpenRequest) -> None:
        """What still arrives about it in the next moment was under way, and needs no answer."""
        entry.ends(self._now_s)
        del self._open[entry.request_id]
        self._to_encode.remove(entry.tenant, entry.request_id)
        self._to_submit.pop(entry.request_id, None)
        self._resting.pop(entry.request_id, None)
        self._quiet_until_s[entry.request_id, entry.attempt] = self._now_s + STALE_REPEAT_S

    def _stale(self, request_id: str, attempt: int) -> list[Command]:
        key = (request_id, attempt)
        if self._quiet_until_s.get(key, float("-inf")) > self._now_s:
            return []
        self._quiet_until_s[key] = self._now_s + STALE_REPEAT_S
        return self._to_hub(wire.Abort(request_id, attempt, self._gateway, "stale"))

    def _to_hub(self, message: wire.Submit | wire.Abort | wire.Audit) -> list[Command]:
        """Nothing is kept for a scheduler that is away: the next one starts from what the journal holds."""
        return [ToHub(self._hub, message)] if self._hub is not None else []


def _first(queue: dict[str, None]) -> str:
    return next(iter(queue))
