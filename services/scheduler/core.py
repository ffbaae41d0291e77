"""The scheduler as a pure state machine: `core.handle(event) -> list[Command]`. No clock, no socket, no task, no log.

Knows the peers, and hands each event to the part that it concerns; time comes in as a `Tick`. Whatever has happened,
each executor that takes a plan is given one afterwards, if there is anything to do: so plan N+1 leaves before result N.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from services.scheduler import figures, integrity
from services.scheduler.admin import AdminCalls
from services.scheduler.events import Command, Event, Tick
from services.scheduler.executors import Executor
from services.scheduler.outbox import Outbox
from services.scheduler.planner import Planner
from services.scheduler.requests import Requests
from services.scheduler.stories import preempted
from shared import wire
from shared.config import SchedulerConfig
from shared.link import Joined, Left, Received

Inbound: TypeAlias = wire.HubFromGateway | wire.HubFromTokenizer | wire.HubFromDetokenizer | wire.HubFromExecutor


class Core:
    """Args:
    hang_timeout_s: an executor whose step takes longer is taken for lost.
    now_s: until the first tick.
    """

    def __init__(self, config: SchedulerConfig, *, hang_timeout_s: float, now_s: float) -> None:
        self.config = config
        self._hang_timeout_s = hang_timeout_s
        self._now_s = now_s
        self._steps = 0
        self._compiled = 0  # answers
        self._peers: dict[str, wire.Hello] = {}
        self._lost: Counter[str] = Counter()  # peers by role
        self._outbox = Outbox()
        self.executors: dict[str, Executor] = {}
        self.requests = Requests(config, self.executors, self._outbox, now_s=now_s)
        self._planner = Planner(config, self.requests.shares)
        self._admin_calls = AdminCalls(self.figures)

    def handle(self, event: Event, at_s: float | None = None) -> list[Command]:
        """Take one event in; the commands are to be carried out in order.

        Args:
            at_s: when it came; None: about the time of the last tick.
        """
        if at_s is not None:
            self._now_s = at_s
            self.requests.at(at_s)
        match event:
            case Joined(peer, hello):
                self._on_joined(peer, hello)
            case Left(peer, reason):
                self._on_left(peer, reason)
            case Received(peer, message):
                self._on_message(peer, message)
            case Tick(now_s):
                self._on_tick(now_s)
            case _:
                assert_never(event)
        self.requests.places.try_suspects(self._now_s)
        self._outbox.extend(self.requests.streams.flush())
        self._plan()
        self._tell()
        self._ask()
        return self._outbox.take()

    # --- peers -------------------------------------------------------------------------------------------------------

    def _on_joined(self, peer: str, hello: wire.Hello | None) -> None:
        assert hello is not None  # the bound side always hears it
        self._peers[peer] = hello
        self._outbox.note("peer_joined", peer=hello.name, role=hello.role)
        if hello.role == "detokenizer":
            self.requests.streams.join(peer)
        if hello.role == "executor":
            self._on_executor_joined(peer, hello)

    def _on_executor_joined(self, peer: str, hello: wire.Hello) -> None:
        if hello.executor is None:
            self._drop(peer, "an executor has to say what it has room for")
            return
        is_taken = any(executor.name == hello.name for executor in self.executors.values())
        name = f"{hello.name}-{peer[:4]}" if is_taken else hello.name
        self.executors[peer] = Executor(
            peer, name, hello.executor, self.config, self.requests.shares, now_s=self._now_s
        )
        self.requests.places.try_suspects(self._now_s)  # before others are sent there
        self.requests.refit()

    def _on_left(self, peer: str, reason: str) -> None:
        hello = self._peers.pop(peer, None)
        if hello is None:
            return  # dropped by ourselves
        self._lost[hello.role] += 1
        self._outbox.note("peer_left", peer=hello.name, role=hello.role, reason=reason)
        match hello.role:
            case "gateway":
                self.requests.gateway_left(peer)
            case "detokenizer":
                self.requests.detokenizer_left(peer)
            case "executor":
                executor = self.executors.pop(peer, None)
                if executor is not None:
                    self.requests.executor_left(executor)
                    self.requests.refit()
            case "tokenizer" | "scheduler":
                pass
            case _:
                assert_never(hello.role)
        self._outbox.extend(self._admin_calls.on_left(peer))

    def _is(self, peer: str, role: wire.Role) -> bool:
        return peer in self._peers and self._peers[peer].role == role

    def _may_name(self, peer: str, gateway: str) -> bool:
        """A gateway speaks for itself alone, a tokenizer for whoever has asked it."""
        return peer == gateway or not self._is(peer, "gateway")

    def _drop(self, peer: str, reason: str) -> None:
        self._outbox.drop(peer, reason)
        self._on_left(peer, reason)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _on_message(self, peer: str, message: Inbound) -> None:
        match message:
            case wire.Submit(gateway=gateway):
                if self._is(gateway, "gateway") and self._may_name(peer, gateway):  # else its audit will find out
                    self.requests.submit(message)
            case wire.Abort():
                if self._is(peer, "detokenizer"):
                    self.requests.abort_by_detokenizer(peer, message)
                elif self._may_name(peer, message.gateway):
                    self.requests.abort_by_gateway(message)
            case wire.Audit():
                self.requests.audit(peer, message)
            case wire.StepResult():
                self._on_result(peer, message)
            case wire.Compiled():
                if peer in self.executors:
                    self._compiled += 1
                    self.requests.compiled(self.executors[peer], message)
            case wire.TreeChanged(events):
                self._on_tree_changed(peer, events)
            case wire.Heartbeat(progress):
                if peer in self.executors:
                    self._on_heartbeat(self.executors[peer], progress)
            case wire.Admin():
                self.requests.draining |= message.op == "drain"
                self._outbox.extend(self._admin_calls.ask(peer, message, self.executors, self._now_s))
            case wire.AdminReply():
                self._outbox.extend(self._admin_calls.on_reply(peer, message))
            case wire.Hello():
                pass  # a link's affair
            case _:
                assert_never(message)

    def _on_result(self, peer: str, result: wire.StepResult) -> None:
        executor = self.executors.get(peer)
        if executor is None:
            return  # dropped, and does not know it yet
        try:
            outcomes = executor.land(result, self._now_s)
        except ValueError as error:
            self._drop(peer, f"its tree does not fit what it has told before: {error}")
            return
        if outcomes is None:
            self._drop(peer, f"result {result.seq} is not that of the next plan in flight")
            return
        self._steps += 1
        for lane, outcome in outcomes:
            if not lane.ended:
                self.requests.report(lane.request, outcome)
        executor.put_back_unstarted()

    def _on_heartbeat(self, executor: Executor, progress: wire.Progress) -> None:
        executor.on_heartbeat(progress, self._hang_timeout_s)
        if executor.moves:
            self.requests.places.trials.suspects.lives(executor.peer)

    def _on_tree_changed(self, peer: str, events: Sequence[wire.TreeEvent]) -> None:
        executor = self.executors.get(peer)
        if executor is None:
            return
        try:
            executor.waiting.apply(events)
        except ValueError as error:
            self._drop(peer, f"its tree does not fit what it has told before: {error}")

    def _on_tick(self, now_s: float) -> None:
        self._now_s = now_s
        self.requests.tick(now_s)
        for executor in list(self.executors.values()):
            executor.release_held()
            executor.parking.ask_again(now_s)
            if executor.is_stalled(now_s, self._hang_timeout_s):
                self._drop(executor.peer, f"no step ended within {self._hang_timeout_s:g} s")
        self._outbox.extend(self._admin_calls.on_tick(now_s))

    # --- plans -------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        streams = self.requests.streams
        for executor in sorted(self.executors.values(), key=lambda executor: executor.load):
            while executor.takes_plan:
                self.requests.places.take_over(executor, self._now_s)
                plan = self._planner.plan(executor, self._now_s, admitting=len(streams) > 0)
                if plan is None:
                    break
                for admit in plan.admits:
                    request = executor.lanes[admit.lane].request
                    self.requests.started(request)
                    self._outbox.extend(streams.open(request))
                self._outbox.send(executor.peer, plan)

    def _tell(self) -> None:
        """Of those that gave way."""
        for executor in self.executors.values():
            for request, reason in executor.take_preempted():
                self._outbox.note("preempted", **preempted(request, executor.name, reason))

    def _ask(self) -> None:
        """For the constraints of those that were sent to an executor."""
        for peer, executor in self.executors.items():
            for question in executor.parking.take_questions(self._now_s):
                self._outbox.send(peer, question)

    # --- to be seen --------------------------------------------------------------------------------------------------

    def progress(self) -> wire.Progress:
        return wire.Progress(
            self._steps + self._compiled,  # who waits for a constraint sees that the line moves
            waiting=self.requests.waiting_count,
            running=self.requests.running_count,
            peers=self._peer_counts(),
            lost=dict(self._lost),
        )

    def figures(self) -> dict[str, Any]:
        executors = self.executors.values()
        return {
            "policy": self.config.chosen_policy,
            "draining": self.requests.draining,
            "waiting": self.requests.waiting_count,
            "running": self.requests.running_count,
            "steps": self._steps,
            "peers": self._peer_counts(),
            "executors": {executor.name: figures.of_executor(executor, self._now_s) for executor in executors},
        }

    def _peer_counts(self) -> dict[str, int]:
        return dict(Counter(hello.role for hello in self._peers.values()))

    def check_integrity(self) -> None:
        """Raises BrokenInvariant with what is wrong."""
        integrity.check(self)
