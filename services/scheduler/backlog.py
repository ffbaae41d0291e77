"""How much waits at the scheduler, by tenant: requests, and tokens of their prompts. And how fast it starts.

Knows who is open. Who runs is for others to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.scheduler.request import Request
from shared.drain_rate import DrainRate


class Load(NamedTuple):
    requests: int = 0
    tokens: int = 0  # of prompts

    def plus(self, request: Request) -> Load:
        return Load(self.requests + 1, self.tokens + request.prompt_tokens)

    def minus(self, request: Request) -> Load:
        return Load(self.requests - 1, self.tokens - request.prompt_tokens)


NOTHING = Load()


def total(loads: Mapping[str, Load]) -> Load:
    return Load(sum(load.requests for load in loads.values()), sum(load.tokens for load in loads.values()))


class Backlog:
    def __init__(self) -> None:
        self.drain = DrainRate()
        self.open: dict[str, Load] = {}  # by tenant: those that wait or run

    def enter(self, request: Request) -> None:
        self.open[request.tenant] = self.open.get(request.tenant, NOTHING).plus(request)

    def leave(self, request: Request) -> None:
        """It is over. Raises KeyError if its tenant has none open."""
        self.open[request.tenant] = self.open[request.tenant].minus(request)
        if not self.open[request.tenant].requests:
            del self.open[request.tenant]

    def waiting(self, running: Iterable[Request]) -> dict[str, Load]:
        """By tenant, of those that have any."""
        loads = dict(self.open)
        for request in running:
            loads[request.tenant] = loads[request.tenant].minus(request)
        return {tenant: load for tenant, load in loads.items() if load.requests}
