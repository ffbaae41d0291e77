"""The executor's edge: dials the hub, hands plans to the step thread and its results back.

Knows the link and the event loop. What a plan means is the step thread's business: a hung step blocks nothing here, and
shows in `progress`. Constraints are compiled beside the steps.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import assert_never

import msgspec

from services.executor.admission import UNCONSTRAINED
from services.executor.assembly import Assembled, assemble
from services.executor.constraint.compiler import Compiler
from services.executor.constraint.engine import STACK_BYTES
from services.executor.step_log import StepLog
from services.executor.worker import Died, Draw, Drawn, Event, Expire, Gap, Loaded, Report, Reset, Stop, Worker
from shared import logging, wire
from shared.config import ConfigError
from shared.constraints import key_of
from shared.link import DialledLink, Joined, Left, LinkEvent, Received
from shared.service import Context, Service

STOP_S = 5.0  # for the step in hand, at the end


class ExecutorService:
    """Args:
    assemble: makes the runner, in the step thread.
    """

    def __init__(
        self,
        context: Context,
        assemble: Callable[[], Assembled],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._clock = clock
        self._log = logging.get()
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[Assembled] = self._loop.create_future()
        self._worker = Worker(assemble, self._emit, clock=clock)
        self._link: DialledLink | None = None
        self._scheduler: str | None = None  # whose lanes the step thread holds
        self._epoch = 0
        self._flush_ends_s: dict[str, float] = {}  # by call
        self._steps = StepLog(context.config.logging.step_every_s)
        self._tree_changed = False  # since it was last drawn
        self._tree_drawn_s = float("-inf")
        self._compiler: Compiler | None = None
        self._compiling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Load, then dial. Raises ConfigError if the configured model cannot be served."""
        assembled = await self._load()
        self._compiler = assembled.compiler
        if self._compiler is not None:
            self._compiler.warm_up()
        self._link = self._context.dial(
            "hub",
            "executor",
            wire.HubToExecutor,
            self._on_link,
            progress=self.progress,
            executor=assembled.info,
            clock=self._clock,
        )
        self._log.info("loaded", **msgspec.structs.asdict(assembled.info))

    async def _load(self) -> Assembled:
        self._worker.start()
        try:
            return await self._loaded
        except (ConfigError, asyncio.CancelledError):
            raise
        except BaseException as error:
            self._context.fail(f"the model could not be loaded: {type(error).__name__}: {error}")
            raise

    async def stop(self) -> None:
        self._worker.send(Stop())
        await self._stop_compiling()
        await asyncio.to_thread(self._worker.join, STOP_S)
        if self._link is not None:
            self._link.close()

    async def _stop_compiling(self) -> None:
        tasks = list(self._compiling)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._compiler is not None:
            await self._compiler.close()

    def tick(self) -> None:
        if self._link is not None:
            self._link.tick()
        now = self._clock()
        self._tell(now)
        for call_id in [call_id for call_id, end_s in self._flush_ends_s.items() if now >= end_s]:
            del self._flush_ends_s[call_id]
            self._worker.send(Expire(call_id))

    def _tell(self, now_s: float) -> None:
        """What steps and tree have come to, from time to time."""
        fields = self._steps.due(now_s, self._worker.progress())
        if fields is not None:
            self._log.info("step", **fields)
        if self._tree_changed and now_s - self._tree_drawn_s >= self._context.config.logging.tree_every_s:
            self._tree_changed, self._tree_drawn_s = False, now_s
            self._worker.send(Draw())

    async def refresh(self) -> None:
        if self._link is not None:
            await self._link.refresh()

    def progress(self) -> wire.Progress:
        return msgspec.structs.replace(self._worker.progress(), peers={"scheduler": int(self._scheduler is not None)})

    # --- from the link -----------------------------------------------------------------------------------------------

    def _on_link(self, event: LinkEvent) -> None:
        match event:
            case Joined(peer):
                self._begin_epoch(peer)
                self._log.info("joined", scheduler=peer)
            case Left(peer, reason):
                if peer == self._scheduler:
                    self._begin_epoch(None)
                    self._log.warning("left", scheduler=peer, reason=reason)
            case Received(peer, message):
                if peer == self._scheduler:
                    self._on_message(message)
            case unknown:
                assert_never(unknown)

    def _begin_epoch(self, scheduler: str | None) -> None:
        """Whatever an earlier grant had under way is void."""
        self._scheduler = scheduler
        self._epoch += 1
        self._flush_ends_s.clear()
        self._worker.send(Reset(self._epoch))

    def _on_message(self, message: wire.HubToExecutor) -> None:
        match message:
            case wire.Admin(call_id, "flush", timeout_s):
                self._flush_ends_s[call_id] = self._clock() + timeout_s
                self._worker.send(message)
            case wire.StepPlan() | wire.Cancel() | wire.Admin():
                self._worker.send(message)
            case wire.Compile(constraint, tenant):
                task = self._loop.create_task(self._compile(self._epoch, constraint, tenant))
                self._compiling.add(task)
                task.add_done_callback(self._compiling.discard)
            case wire.Heartbeat() | wire.Welcome() | wire.Refused() | wire.Reset():
                pass  # the link's own business
            case unknown:
                assert_never(unknown)

    async def _compile(self, epoch: int, constraint: wire.Constraint, tenant: str) -> None:
        error = UNCONSTRAINED if self._compiler is None else await self._compiler.compile(constraint, tenant)
        self._deliver(epoch, wire.Compiled(key_of(constraint), error, tenant))

    # --- from the step thread ----------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        """In the step thread."""
        self._loop.call_soon_threadsafe(self._on_event, event)

    def _on_event(self, event: Event) -> None:
        match event:
            case Loaded(assembled):
                self._loaded.set_result(assembled)
            case Report(epoch, message):
                self._note(message)
                self._deliver(epoch, message)
            case Drawn(fields):
                self._log.info("tree", **fields)
            case Gap():
                self._on_gap(event)
            case Died(error):
                self._on_death(error)
            case unknown:
                assert_never(unknown)

    def _note(self, message: wire.StepResult | wire.TreeChanged | wire.AdminReply) -> None:
        match message:
            case wire.StepResult(events=events):
                self._steps.note(message)
                self._tree_changed |= bool(events)
            case wire.TreeChanged(events):
                self._tree_changed |= bool(events)

    def _deliver(
        self, epoch: int, message: wire.StepResult | wire.TreeChanged | wire.AdminReply | wire.Compiled
    ) -> None:
        if epoch != self._epoch or self._scheduler is None or self._link is None:
            return  # of a grant that is over
        if isinstance(message, wire.AdminReply):
            self._flush_ends_s.pop(message.call_id, None)
        self._link.send(self._scheduler, message)

    def _on_gap(self, gap: Gap) -> None:
        """Begin anew with the scheduler, which then counts the lanes as lost; the tree stays."""
        if gap.epoch == self._epoch and self._scheduler is not None and self._link is not None:
            reason = f"plan {gap.arrived_seq} arrived where plan {gap.due_seq} was due"
            self._link.drop(self._scheduler, reason)

    def _on_death(self, error: BaseException) -> None:
        self._log.error("broken", exc_info=error)
        if self._loaded.done():
            self._context.fail(f"the step thread died: {type(error).__name__}: {error}")
        else:
            self._loaded.set_exception(error)


def build(context: Context) -> Service:
    threading.stack_size(STACK_BYTES)  # of all threads from here on
    return ExecutorService(context, lambda: assemble(context.config, context.compiling))
