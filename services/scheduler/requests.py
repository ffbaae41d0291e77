"""The life of requests: taken in or refused, streamed, and ended. Exactly one end for each attempt that is taken in.

    finish   the executor says so, and the detokenizer tells the gateway; or the detokenizer has found a stop string
    abort    the gateway has given it up; the detokenizer, if it has opened it, hears of it
    fail     its deadline has passed, its constraint cannot be compiled, no executor has room for it, or it crashes
             them: the detokenizer tells the gateway if it has opened it, else it is Rejected
    lose     its executor or its detokenizer is gone: Lost, and the gateway submits the next attempt; so it does of
             itself when its link was gone

Knows who names and streams a request. Where it waits is for `placement` to say, and when it runs for the planner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from services.scheduler import admission
from services.scheduler.backlog import Backlog
from services.scheduler.executors import Executor
from services.scheduler.fair_shares import FairShares
from services.scheduler.ledger import Ledger, Place
from services.scheduler.outbox import Outbox
from services.scheduler.placement import Placement
from services.scheduler.request import Key, Request
from services.scheduler.stories import finished, named, started
from services.scheduler.streams import Streams
from shared import wire
from shared.config import SchedulerConfig


class Requests:
    """Args:
    executors: those that are linked, by peer.
    now_s: until the first tick.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        executors: Mapping[str, Executor],
        outbox: Outbox,
        *,
        now_s: float,
    ) -> None:
        self._config = config
        self._executors = executors
        self._outbox = outbox
        self._now_s = now_s
        self._arrivals = 0
        self.draining = False
        self.shares = FairShares(config.fair_quantum_tokens)
        self.places = Placement(config, executors, self.shares)
        self.ledger = Ledger()
        self.backlog = Backlog()
        self.streams = Streams()

    @property
    def running_count(self) -> int:
        return sum(executor.running_requests for executor in self._executors.values())

    @property
    def waiting_count(self) -> int:
        """Those that hold no KV."""
        return len(self.ledger.open) - self.running_count

    def _running(self) -> Iterator[Request]:
        return (lane.request for executor in self._executors.values() for lane in executor.running())

    # --- taking in ---------------------------------------------------------------------------------------------------

    def submit(self, submit: wire.Submit) -> None:
        """Take the request in, or refuse it. A newer attempt ends the older one; a stale one is nobody's."""
        key, attempt = (submit.gateway, submit.request_id), submit.attempt
        if self.ledger.is_stale(key, attempt):
            return
        if (older := self.ledger.open.get(key)) is not None:
            self._abort(older)
        self.streams.close(lambda closing, _: closing == key)
        accepted = self._admit(submit)
        if isinstance(accepted, wire.Error):
            self.ledger.bury(key, attempt, self._now_s)
            self._outbox.send(submit.gateway, wire.Rejected(submit.request_id, attempt, accepted))
            return
        order, arrived_s = self.ledger.place(key) or self._next_place()
        expires_s = None if submit.time_left_s is None else self._now_s + submit.time_left_s
        request = Request(submit, order, arrived_s, accepted, expires_s)
        self.ledger.add(request)
        self.backlog.enter(request)
        self.shares.enter(request.tenant)
        request.account.waits(self._now_s)
        self.places.route(request)
        answer = wire.Accepted(submit.request_id, attempt, submit.prompt_token_ids, accepted)
        self._outbox.send(submit.gateway, answer)
        self._outbox.note("accepted", **named(request), prompt_tokens=request.prompt_tokens)

    def _next_place(self) -> Place:
        self._arrivals += 1
        return Place(self._arrivals, self._now_s)

    def refit(self) -> None:
        """The executors have changed: clamp what waits to what they can finish, and fail what cannot be served."""
        for request in list(self.places.waiting()):
            clamped = self._clamp(request.prompt_tokens, request.output_tokens, request.max_new_tokens)
            if isinstance(clamped, wire.Error):
                self._fail(request, clamped)
            elif clamped != request.max_new_tokens or request.executor is None:
                self.places.dequeue(request)
                request.max_new_tokens = clamped
                self.places.route(request)

    def _admit(self, submit: wire.Submit) -> int | wire.Error:
        """How many tokens it may generate, or why it is refused."""
        waiting = self.backlog.waiting(self._running())
        if not waiting:
            self.backlog.drain.restart(self._now_s)
        refused = admission.refusal(
            submit, waiting, self.backlog.drain, self._config, draining=self.draining, now_s=self._now_s
        )
        prompt_tokens, output_tokens = len(submit.prompt_token_ids), len(submit.resume_token_ids)
        return refused or self._clamp(prompt_tokens, output_tokens, submit.max_new_tokens)

    def _clamp(self, prompt_tokens: int, output_tokens: int, max_new_tokens: int) -> int | wire.Error:
        """To what the roomiest executor can finish; as long as there is none, to nothing."""
        limits = [executor.request_tokens for executor in self._executors.values()]
        if not limits:
            return max_new_tokens
        return admission.clamp(prompt_tokens, output_tokens, max_new_tokens, limit_tokens=max(limits))

    # --- what befalls it ---------------------------------------------------------------------------------------------

    def started(self, request: Request) -> None:
        """It has got a lane."""
        request.account.starts(self._now_s)
        self.backlog.drain.left(self._now_s, request.prompt_tokens)

    def report(self, request: Request, outcome: wire.Outcome) -> None:
        """What a step has made of it."""
        if outcome.computed_tokens:
            self.places.trials.suspects.computed(request.key, outcome.computed_tokens)
        if request.cached_tokens is None and outcome.computed_tokens:
            request.cached_tokens = outcome.cached_tokens
            self._outbox.note("started", **started(request))
        request.account.forces(outcome.forced_tokens)
        if outcome.new_token_ids or outcome.prompt_logprobs or outcome.finish_reason is not None:
            self.streams.update(request, request.update(outcome))
            request.generated += outcome.new_token_ids
            request.scored |= bool(outcome.prompt_logprobs)
        if outcome.finish_reason is not None:
            self.places.trials.suspects.clear(request.key)
            self._retire(request, outcome.finish_reason, delivered=True)
        elif outcome.waiting == "grammar" and request.constraint_key is not None and request.lane is not None:
            request.compiled_by = None
            self._executors[request.lane.executor].put_back(request)

    def compiled(self, executor: Executor, answer: wire.Compiled) -> None:
        """Those that wait there for this constraint have their turn, or end with what is wrong with it."""
        for request in executor.parking.requests(answer.key, answer.tenant):
            request.account.compiled(self._now_s)
            if answer.error is None:
                executor.unpark(request)
            else:
                self._fail(request, answer.error)

    def abort_by_gateway(self, abort: wire.Abort) -> None:
        """Holds for this attempt and all before it, also for those that are still to arrive."""
        key = (abort.gateway, abort.request_id)
        request = self.ledger.open.get(key)
        if request is not None and request.attempt <= abort.attempt:
            self._abort(request)
            self.places.trials.suspects.clear(key)
        self.streams.close(lambda closing, attempt: closing == key and attempt <= abort.attempt)
        self.ledger.bury(key, abort.attempt, self._now_s)

    def abort_by_detokenizer(self, detokenizer: str, abort: wire.Abort) -> None:
        """It has found a stop string; or else it has no state for the request, or nobody to send its text to."""
        request = self.ledger.open.get((abort.gateway, abort.request_id))
        if request is None or request.attempt > abort.attempt or request.detokenizer != detokenizer:
            return
        if abort.reason == "stop_string":
            self._withdraw(request, "stop_string", delivered=True)
        else:
            self.streams.forget(request)
            missing = "link to its gateway" if abort.reason == "gateway_gone" else "state for it"
            self._lose(request, f"its detokenizer has no {missing}")

    def audit(self, gateway: str, audit: wire.Audit) -> None:
        audited = self.ledger.audit(gateway, audit, self._now_s)
        for request in audited.orphans:
            self._abort(request)
        for entry in audited.lost:
            self.ledger.bury((gateway, entry.request_id), entry.attempt, self._now_s)
            self._outbox.send(gateway, wire.Lost(entry.request_id, entry.attempt, "the scheduler does not know it"))
        held: dict[Key, int] = {(gateway, entry.request_id): entry.attempt for entry in audit.open}
        self.streams.close(lambda key, attempt: key[0] == gateway and held.get(key) != attempt)

    def at(self, now_s: float) -> None:
        """It is later by now."""
        self._now_s = now_s

    def tick(self, now_s: float) -> None:
        self._now_s = now_s
        for request in [request for request in self.ledger.open.values() if request.is_overdue(now_s)]:
            self._fail(request, admission.DEADLINE_EXCEEDED)
        self.ledger.forget(now_s)
        self.streams.close_oldest(now_s)

    def gateway_left(self, gateway: str) -> None:
        """It may be gone for good, or be back at once: then it submits what it holds again."""
        for request in self.ledger.of_gateway(gateway):
            self._give_up(request)

    def executor_left(self, executor: Executor) -> None:
        """Who ran there is lost, or given up if it is to blame; who only waited goes elsewhere."""
        in_hand = {request: tokens for request, tokens in executor.in_hand().items() if self._is_open(request)}
        reach_tokens = {request.key: tokens for request, tokens in in_hand.items()}
        guilty = self.places.trials.suspects.died(executor.peer, reach_tokens, self._now_s)
        self.places.trials.left(executor)
        self.places.route_all(executor)
        for request in [request for request in in_hand if request.key == guilty]:
            self._fail(request, admission.POISONED)
        for lane in executor.running():
            self._lose(lane.request, "its executor is gone", excused=True)
        for request in filter(self._is_open, in_hand):  # it has given way in the meantime
            self.places.recall(request)

    def detokenizer_left(self, detokenizer: str) -> None:
        """Who holds nothing and has streamed nothing has lost nothing: another detokenizer will do."""
        for request in self.streams.leave(detokenizer):
            if request.streamed or request.lane is not None:
                self._lose(request, "its detokenizer is gone")
            else:
                request.detokenizer = None

    # --- moves -------------------------------------------------------------------------------------------------------

    def _is_open(self, request: Request) -> bool:
        return self.ledger.open.get(request.key) is request

    def _abort(self, request: Request) -> None:
        self.streams.update(request, request.ending("abort"))
        self._withdraw(request, "abort", delivered=False)

    def _fail(self, request: Request, error: wire.Error) -> None:
        self.places.trials.suspects.clear(request.key)
        request.account.starts(self._now_s)
        if request.detokenizer is None:
            answer = wire.Rejected(request.submit.request_id, request.attempt, error, request.counts())
            self._outbox.send(request.submit.gateway, answer)
        self.streams.update(request, request.ending("error", error))
        self._withdraw(request, error.code, delivered=request.detokenizer is not None)

    def _lose(self, request: Request, reason: str, *, excused: bool = False) -> None:
        request_id, attempt = request.submit.request_id, request.attempt
        self._outbox.send(request.submit.gateway, wire.Lost(request_id, attempt, reason, excused))
        self._outbox.note("request_lost", **named(request), reason=reason)
        self._give_up(request)

    def _give_up(self, request: Request) -> None:
        """End an attempt without ending its stream, which the next attempt continues."""
        self.streams.linger(request, self._now_s)
        self._withdraw(request, "lost", delivered=False)

    def _withdraw(self, request: Request, reason: str, *, delivered: bool) -> None:
        """End an attempt that its executor does not know to be over: the steps under way need not go on with it."""
        lane = request.lane
        if lane is not None and lane.in_flight and lane.executor in self._executors:
            self._outbox.send(lane.executor, wire.Cancel((lane.number,)))
        self._retire(request, reason, delivered=delivered)

    def _retire(self, request: Request, reason: str, *, delivered: bool) -> None:
        """This attempt is over here, whatever still arrives about it. Its lane is released in the next plan."""
        request.account.starts(self._now_s)
        self._outbox.note("finished", **finished(request, reason))
        self.ledger.end(request, self._now_s, delivered=delivered)
        self.backlog.leave(request)
        self.shares.leave(request.tenant)
        self.streams.forget(request)
        if request.lane is None:
            self.places.dequeue(request)
        elif request.lane.executor in self._executors:
            self._executors[request.lane.executor].sketch.forget(request)
        request.leave_lane()
