"""The scheduler's sampled log line about its steps: one in a while as long as there are any.

Knows what goes into the core and comes out of it. Times are means over the plans since the last line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from services.scheduler.events import Command, Event, Send
from shared import wire
from shared.link import Received


class StepLog:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_s = float("-inf")
        self._start_anew()

    def _start_anew(self) -> None:
        self._plans = self._steps = self._slices = self._tokens = self._computed_tokens = 0
        self._plan_s = 0.0

    def note(self, event: Event, commands: Iterable[Command], seconds: float) -> None:
        """An event has led to these commands, in so much time."""
        match event:
            case Received(_, wire.StepResult() as result):
                self._steps += 1
                self._computed_tokens += result.computed_tokens
        messages = [command.message for command in commands if isinstance(command, Send)]
        plans = [message for message in messages if isinstance(message, wire.StepPlan)]
        if plans:
            self._plan_s += seconds
            self._plans += len(plans)
            self._slices += sum(len(plan.slices) for plan in plans)
            self._tokens += sum(piece.num_tokens for plan in plans for piece in plan.slices)

    def due(self, now_s: float, progress: Callable[[], wire.Progress]) -> dict[str, Any] | None:
        """The line's fields, if it is time for one."""
        if not self._plans or now_s - self._said_s < self._every_s:
            return None
        plans, now = self._plans, progress()
        fields = {
            "batch": round(self._slices / plans, 2),
            "tokens": round(self._tokens / plans, 2),
            "running": now.running,
            "waiting": now.waiting,
            "plan_s": round(self._plan_s / plans, 6),
            "plans": plans,
            "steps": self._steps,
            "computed_tokens": self._computed_tokens,
        }
        self._said_s = now_s
        self._start_anew()
        return fields
