"""The scheduler's sampled log line about its steps: one in a while as long as there are any, or anybody waits.

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
        self._said_busy = False  # that anybody runs or waits
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
        """The line's fields, if it is time for one. The last one says that nobody runs or waits any more."""
        if now_s - self._said_s < self._every_s:
            return None
        now = progress()
        is_busy = now.running + now.waiting > 0
        if not (self._plans or is_busy or self._said_busy):
            return None
        fields = self._fields(now)
        self._said_s, self._said_busy = now_s, is_busy
        self._start_anew()
        return fields

    def _fields(self, now: wire.Progress) -> dict[str, Any]:
        return {
            **self._means(),
            "running": now.running,
            "waiting": now.waiting,
            "plans": self._plans,
            "steps": self._steps,
            "computed_tokens": self._computed_tokens,
        }

    def _means(self) -> dict[str, float]:
        """Of nothing there are none."""
        plans = self._plans
        if not plans:
            return {}
        return {
            "batch": round(self._slices / plans, 2),
            "tokens": round(self._tokens / plans, 2),
            "plan_s": round(self._plan_s / plans, 6),
        }
