"""Questions and orders of operators: asked of every executor, answered as one.

The answer's payload is {"scheduler": figures, "executors": {name: what it answered}}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.scheduler.events import Send
from services.scheduler.executors import Executor
from shared import wire

GRACE_S = 0.5  # beyond what the caller waits for: the executor's own answer says more than ours

NO_EXECUTOR = wire.Error("no executor is connected", "not_ready", status=503)
TOO_LATE = wire.Error("an executor has not answered in time", "timeout", status=504)
GONE = wire.Error("an executor has gone before it answered", "executor_lost", status=503)


@dataclass(slots=True)
class Call:
    gateway: str
    admin: wire.Admin
    until_s: float
    missing: dict[str, str]  # executors that have not answered: peer to name
    answers: dict[str, Any] = field(default_factory=dict)
    error: wire.Error | None = None  # the first one


class AdminCalls:
    def __init__(self, figures: Callable[[], dict[str, Any]]) -> None:
        self._figures = figures
        self._calls: dict[str, Call] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._calls)

    def ask(self, gateway: str, admin: wire.Admin, executors: Mapping[str, Executor], now_s: float) -> Iterator[Send]:
        """Ask the executors; with none of them, only what the scheduler itself knows can be told."""
        asked = executors if admin.op != "drain" else {}  # a scheduler that takes nothing in drains its executors
        names = {peer: executor.name for peer, executor in asked.items()}
        self._count += 1
        call_id = str(self._count)
        call = self._calls[call_id] = Call(gateway, admin, now_s + admin.timeout_s + GRACE_S, names)
        for peer in names:
            yield Send(peer, wire.Admin(call_id, admin.op, admin.timeout_s, admin.text))
        if not names and admin.op in ("flush", "tree"):
            call.error = NO_EXECUTOR
        yield from self._answer_complete()

    def on_reply(self, peer: str, reply: wire.AdminReply) -> Iterator[Send]:
        call = self._calls.get(reply.call_id)
        if call is not None and peer in call.missing:
            call.answers[call.missing.pop(peer)] = reply.payload
            call.error = call.error or reply.error
            yield from self._answer_complete()

    def on_left(self, peer: str) -> Iterator[Send]:
        """Nobody answers for an executor that is gone, and nobody is answered that is gone."""
        self._calls = {call_id: call for call_id, call in self._calls.items() if call.gateway != peer}
        for call in self._calls.values():
            if call.missing.pop(peer, None) is not None:
                call.error = call.error or GONE
        yield from self._answer_complete()

    def on_tick(self, now_s: float) -> Iterator[Send]:
        for call in self._calls.values():
            if now_s > call.until_s:
                call.missing.clear()
                call.error = call.error or TOO_LATE
        yield from self._answer_complete()

    def _answer_complete(self) -> Iterator[Send]:
        for call_id, call in [item for item in self._calls.items() if not item[1].missing]:
            del self._calls[call_id]
            payload = {"scheduler": self._figures(), "executors": call.answers}
            yield Send(call.gateway, wire.AdminReply(call.admin.call_id, payload, call.error))
