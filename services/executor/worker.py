"""The step thread: owns the runner, runs plans strictly by seq, reads cancels before each step, answers when asked.

Knows commands in and reports out. Does not know sockets or the event loop. While there is nothing to do it blocks.

An epoch is the time between two resets, one grant of the scheduler: a report says in which it was made. Where a plan
of an epoch is missing, those behind it cannot be run: they are left alone until the next epoch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, assert_never

import msgspec

from services.executor.admin import answer, flush_timed_out
from services.executor.assembly import Assembled
from services.executor.step import StepRunner
from services.executor.tree_sketch import UseTimes, sketch
from shared import wire


@dataclass(frozen=True, slots=True)
class Reset:
    """A new grant, or none: give up all lanes and plans, keep the tree."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Expire:
    """The flush of this call has waited long enough."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Draw:
    """The tree, for the log."""


@dataclass(frozen=True, slots=True)
class Stop:
    pass


Command: TypeAlias = wire.StepPlan | wire.Cancel | wire.Admin | Reset | Expire | Draw | Stop


@dataclass(frozen=True, slots=True)
class Loaded:
    assembled: Assembled  # of which the runner stays in the thread


@dataclass(frozen=True, slots=True)
class Report:
    epoch: int
    message: wire.StepResult | wire.TreeChanged | wire.AdminReply


@dataclass(frozen=True, slots=True)
class Drawn:
    fields: dict[str, Any]  # see `services.executor.tree_sketch`


@dataclass(frozen=True, slots=True)
class Gap:
    """A plan of this epoch has been lost on the way. Lanes and tree are sound; the epoch cannot go on."""

    epoch: int
    due_seq: int
    arrived_seq: int


@dataclass(frozen=True, slots=True)
class Died:
    """The thread is over. Nothing that it owned can be trusted."""

    error: BaseException


Event: TypeAlias = Loaded | Report | Drawn | Gap | Died


class Worker:
    """Args:
    assemble: makes what the thread owns; called in the thread.
    emit: takes events, in the thread.
    """

    def __init__(
        self,
        assemble: Callable[[], Assembled],
        emit: Callable[[Event], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._assemble = assemble
        self._emit = emit
        self._clock = clock
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._plans: deque[wire.StepPlan] = deque()
        self._flushes: dict[str, wire.Admin] = {}  # waiting for a moment of idleness
        self._epoch = 0
        self._next_seq: int | None = None  # any, at the start of an epoch
        self._has_gap = False  # in the plans of this epoch
        self._progress = wire.Progress()
        self._step_start_s: float | None = None
        self._use_times = UseTimes()
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)

    # --- for other threads -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def send(self, command: Command) -> None:
        self._commands.put(command)

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread, after a Stop."""
        self._thread.join(timeout_s)

    def progress(self) -> wire.Progress:
        """How far the steps have come; the age of the one in hand shows a hang."""
        start_s = self._step_start_s
        if start_s is None:
            return self._progress
        return msgspec.structs.replace(self._progress, step_age_s=self._clock() - start_s)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            assembled = self._assemble()
            self._emit(Loaded(assembled))
            self._work(assembled)
        except BaseException as error:  # a panic of a Rust library is no Exception
            self._emit(Died(error))

    def _work(self, assembled: Assembled) -> None:
        while True:
            for command in self._read():
                if isinstance(command, Stop):
                    return
                self._handle(command, assembled)
            if self._plans:
                self._step(self._plans.popleft(), assembled.runner)
            if self._flushes and not assembled.runner.running:
                self._answer_flushes(assembled)

    def _read(self) -> Iterator[Command]:
        """All commands that are there; with no plan in hand, wait for one."""
        if not self._plans:
            yield self._commands.get()
        while True:
            try:
                yield self._commands.get_nowait()
            except Empty:
                return

    def _handle(
        self, command: wire.StepPlan | wire.Cancel | wire.Admin | Reset | Expire | Draw, assembled: Assembled
    ) -> None:
        match command:
            case wire.StepPlan():
                self._queue(command)
            case wire.Cancel(lanes):
                assembled.runner.cancel(lanes)
                self._note(self._progress.last_seq, assembled.runner)
            case wire.Admin(call_id, "flush"):
                self._flushes[call_id] = command
            case wire.Admin():
                self._report(answer(command, assembled.runner, assembled.info))
            case Expire(call_id):
                if call_id in self._flushes:
                    self._report(flush_timed_out(self._flushes.pop(call_id)))
            case Draw():
                self._emit(Drawn(sketch(assembled.runner.cache, self._use_times, self._clock())))
            case Reset(epoch):
                assembled.runner.reset()
                self._plans.clear()
                self._flushes.clear()
                self._epoch, self._next_seq, self._has_gap = epoch, None, False
                self._note(0, assembled.runner)
                self._tell_tree(assembled.runner)
            case unknown:
                assert_never(unknown)

    def _queue(self, plan: wire.StepPlan) -> None:
        if self._has_gap:
            return
        if self._next_seq is not None and plan.seq != self._next_seq:
            self._has_gap = True
            self._emit(Gap(self._epoch, self._next_seq, plan.seq))
            return
        self._next_seq = plan.seq + 1
        self._plans.append(plan)

    def _step(self, plan: wire.StepPlan, runner: StepRunner) -> None:
        self._step_start_s = self._clock()
        result = runner.run(plan)
        self._step_start_s = None
        self._note(plan.seq, runner)
        self._use_times.note(runner.cache.uses, self._clock())
        self._report(result)

    def _note(self, last_seq: int, runner: StepRunner) -> None:
        self._progress = wire.Progress(last_seq, waiting=runner.waiting, running=runner.running)

    def _answer_flushes(self, assembled: Assembled) -> None:
        for call in self._flushes.values():
            reply = answer(call, assembled.runner, assembled.info)
            events = assembled.runner.cache.take_events()
            if events:
                self._report(wire.TreeChanged(events))
            self._report(reply)
        self._flushes.clear()

    def _tell_tree(self, runner: StepRunner) -> None:
        """All of it; what happened before is a part of that."""
        runner.cache.take_events()
        self._report(wire.TreeChanged(runner.cache.snapshot()))

    def _report(self, message: wire.StepResult | wire.TreeChanged | wire.AdminReply) -> None:
        self._emit(Report(self._epoch, message))
