"""The scheduler's edge: hub, clock and log. Hands the core its events and carries out its commands."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import assert_never

from services.scheduler.core import Core
from services.scheduler.events import Command, Drop, Event, Note, Send, Tick
from services.scheduler.step_log import StepLog
from shared import logging, wire
from shared.link import BoundLink
from shared.service import Context


class Scheduler:
    """Args:
    clock: monotonic time.
    """

    def __init__(
        self,
        context: Context,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = context.config
        self._context = context
        self._clock = clock
        self._log = logging.get()
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._hub: BoundLink | None = None
        self._steps = StepLog(config.logging.step_every_s)
        self.core = Core(config.scheduler, hang_timeout_s=config.supervisor.hang_timeout_s, now_s=clock())

    async def start(self) -> None:
        self._hub = self._context.bind(
            "hub_bind", wire.HUB_ACCEPTS, self._on_event, progress=self.core.progress, clock=self._clock
        )

    async def stop(self) -> None:
        if self._hub is not None:
            self._hub.close()

    def tick(self) -> None:
        if self._hub is not None:
            self._hub.tick()
        self._on_event(Tick(self._clock()))
        fields = self._steps.due(self._clock(), self.core.progress)
        if fields is not None:
            self._log.info("step", **fields)

    async def refresh(self) -> None:
        """Nothing is dialled."""

    def progress(self) -> wire.Progress:
        return self.core.progress()

    def _on_event(self, event: Event) -> None:
        """One at a time, in order: carrying out a command can be an event itself."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        while self._events:
            for command in self._decide(self._events.popleft()):
                self._carry_out(command)
        self._is_handling = False

    def _decide(self, event: Event) -> list[Command]:
        """Timed: this is what a plan costs."""
        start_s = self._clock()
        commands = self.core.handle(event, start_s)
        self._steps.note(event, commands, self._clock() - start_s)
        return commands

    def _carry_out(self, command: Command) -> None:
        """A send that fails needs no answer here: the link reports that the peer left."""
        assert self._hub is not None
        match command:
            case Send(peer, message):
                self._hub.send(peer, message)
            case Drop(peer, reason):
                self._hub.drop(peer, reason)
            case Note(event, fields):
                self._log.info(event, **fields)
            case _:
                assert_never(command)


def build(context: Context) -> Scheduler:
    return Scheduler(context)
