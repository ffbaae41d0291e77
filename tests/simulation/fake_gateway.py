"""A gateway that only keeps the end-to-end rule: what is lost is submitted again with all that has arrived."""

from dataclasses import dataclass, field

from shared import wire
from tests.simulation.fake_grammars import REFUSAL, REFUSED
from tests.simulation.tokens import expected_output

SETTLED_S = 2.0


@dataclass
class OpenRequest:
    request_id: str
    prompt: tuple[int, ...]
    max_new_tokens: int
    priority: int
    stops_at_string: bool
    deadline_s: float | None
    opened_s: float
    constraint: wire.Constraint | None = None
    logprobs: bool = False
    attempt: int = 1
    sent_s: float = 0.0
    received: list[int] = field(default_factory=list)

    def submit(self, gateway):
        return wire.Submit(
            self.request_id,
            self.attempt,
            gateway,
            self.prompt,
            wire.Sampling(seed=1, temperature=0.0, logprobs=self.logprobs),
            wire.TextOptions(stop=("stop",) if self.stops_at_string else ()),
            self.max_new_tokens,
            tuple(self.received),
            constraint=self.constraint,
            namespace=str(self.prompt[0] % 2),
            priority=self.priority,
            time_left_s=None if self.deadline_s is None else self.deadline_s - self.sent_s,
        )


class FakeGateway:
    """`send` takes what it says to the scheduler; `close(request, outcome)` is told of each request's one end."""

    def __init__(self, identity, send, limit_tokens):
        self.identity, self.send, self.limit_tokens = identity, send, limit_tokens
        self.open: dict[str, OpenRequest] = {}
        self.endings: dict[str, str] = {}
        self.poisoned: dict[str, tuple[int, ...]] = {}  # prompts of those that were said to be
        self.linked = False
        self.longest_s = 0.0

    @property
    def requests(self):
        return len(self.open) + len(self.endings)

    def joined(self, now_s):
        """A new grant: the scheduler knows nothing of what is open."""
        self.linked = True
        for request in list(self.open.values()):
            self.retry(request, now_s)

    def start(self, request, send, now_s):
        self.open[request.request_id] = request
        request.sent_s = now_s
        send(request.submit(self.identity))

    def retry(self, request, now_s):
        request.attempt += 1
        request.sent_s = now_s
        self.send(request.submit(self.identity))

    def abort(self, request_id, now_s):
        request = self.open[request_id]
        self.send(wire.Abort(request_id, request.attempt, self.identity, "client"))
        self._close(request, "abort", now_s)

    def audit(self, now_s):
        entries = (wire.AuditEntry(r.request_id, r.attempt, now_s - r.sent_s >= SETTLED_S) for r in self.open.values())
        self.send(wire.Audit(tuple(entries)))

    def receive(self, message, now_s):
        if not isinstance(message, wire.Accepted | wire.Rejected | wire.Lost | wire.TextUpdate):
            return
        request = self.open.get(message.request_id)
        if request is None or request.attempt != message.attempt:
            if not isinstance(message, wire.Lost):
                self.send(wire.Abort(message.request_id, message.attempt, self.identity, "stale"))
            return
        match message:
            case wire.Rejected(error=error):
                self._close(request, error.code, now_s)
            case wire.Lost():
                self.retry(request, now_s)
            case wire.TextUpdate():
                self._on_text(request, message, now_s)

    def _on_text(self, request, update, now_s):
        if update.token_offset > len(request.received):
            self.retry(request, now_s)
            return
        request.received += update.token_ids[len(request.received) - update.token_offset :]
        assert update.counts.cached_tokens <= update.counts.prompt_tokens == len(request.prompt)
        if update.finish_reason is not None:
            self._check(request, update)
            self._close(request, update.error.code if update.error else update.finish_reason, now_s)

    def _check(self, request, update):
        assert request.constraint is None or request.constraint.source != REFUSED, "a refused grammar has run"
        room = min(request.max_new_tokens, self.limit_tokens - len(request.prompt))
        output, reason = expected_output(request.prompt, room, stops_at_string=request.stops_at_string)
        if update.error is not None:
            assert update.error.code in ("deadline_exceeded", "poisoned_request")
            assert request.received == output[: len(request.received)]
        else:
            assert (request.received, update.finish_reason) == (output, reason), "wrong output"

    def _close(self, request, ending, now_s):
        assert request.request_id not in self.endings, "a second terminal"
        is_refused = request.constraint is not None and request.constraint.source == REFUSED
        assert is_refused or ending != REFUSAL.code, "it is told that another's grammar is wrong"
        self.endings[request.request_id] = ending
        if ending == "poisoned_request":
            self.poisoned[request.request_id] = request.prompt
        self.longest_s = max(self.longest_s, now_s - request.opened_s)
        del self.open[request.request_id]
