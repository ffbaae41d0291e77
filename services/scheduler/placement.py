"""Where each request waits: at an executor, with the suspects, or nowhere as long as nobody can take it.

Knows the loads of the executors and what is known there of a request. Does not know who asked for it, or how it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from services.scheduler import routing
from services.scheduler.executors import Executor
from services.scheduler.fair_shares import FairShares
from services.scheduler.request import Request
from services.scheduler.trials import Trials
from services.scheduler.waiting import WaitingQueue
from shared.config import SchedulerConfig

TAKE_OVER_S = 1.0  # what a request waits at one executor while another one is idle


class Placement:
    """Args:
    executors: those that are linked, by peer.
    """

    def __init__(self, config: SchedulerConfig, executors: Mapping[str, Executor], shares: FairShares) -> None:
        self._executors = executors
        self._balance = routing.Balance(config.balance_requests, config.balance_factor, config.balance_tokens)
        self.unrouted = WaitingQueue(config.chosen_policy, max_wait_s=config.max_wait_s, shares=shares, index=None)
        self.trials = Trials(executors)

    def waiting(self) -> Iterator[Request]:
        return chain(
            self.unrouted,
            self.trials.held.values(),
            *(executor.queued for executor in self._executors.values()),
        )

    def route(self, request: Request) -> None:
        """To the executor where most of it is known, weighed against the load there; a suspect to its trial."""
        if self.trials.take(request):
            return
        options = [
            routing.Option(executor, executor.load, self._known_tokens(executor, request))
            for executor in self._executors.values()
            if executor is not self.trials.host and executor.fits(request)
        ]
        if not options:
            self.unrouted.add(request)
            return
        executor = routing.choose(options, self._balance)
        executor.enqueue(request)

    def _known_tokens(self, executor: Executor, request: Request) -> int:
        return executor.known_tokens(request) if len(self._executors) > 1 else 0

    def route_all(self, executor: Executor) -> None:
        """Send those that wait at an executor somewhere else."""
        for request in list(executor.queued):
            executor.dequeue(request)
            self.route(request)

    def reroute(self, request: Request) -> None:
        self.dequeue(request)
        self.route(request)

    def recall(self, request: Request) -> None:
        """From wherever it is, to where it belongs."""
        if request.lane is not None:
            self._executors[request.lane.executor].preempt(request, "trial")
        self.reroute(request)

    def dequeue(self, request: Request) -> None:
        if self.trials.held.get(request.key) is request:
            self.trials.release(request)
        elif request.executor is None:
            self.unrouted.remove(request)
        else:
            self._executors[request.executor].dequeue(request)

    def take_over(self, idle: Executor, now_s: float) -> None:
        """An executor that nobody waits for takes one from the busiest, if that is overloaded or lets it wait long."""
        open_ones = [executor for executor in self._executors.values() if executor is not self.trials.host]
        others = [executor for executor in open_ones if executor is not idle and executor.waiting]
        if idle.waiting or idle is self.trials.host or not others:
            return
        busiest = max(others, key=lambda executor: executor.load)
        if self._gives_to(busiest, idle, now_s):
            least = busiest.waiting.least_wanted()
            if least is not None and idle.fits(least):
                busiest.dequeue(least)
                idle.enqueue(least)

    def _gives_to(self, busiest: Executor, idle: Executor, now_s: float) -> bool:
        if self._balance.is_overloaded(busiest.load, idle.load):
            return True
        if busiest.moves and not busiest.running_requests:
            return False  # it starts the next one itself: else two idle ones hand on what has to be compiled first
        return not idle.load and now_s - busiest.waiting.oldest_s() > TAKE_OVER_S

    def try_suspects(self, now_s: float) -> None:
        """A trial begins, ends or is interrupted: some requests go elsewhere."""
        if not self.trials.is_busy:
            return
        host = self.trials.host
        for request in self.trials.review(now_s, crowded=len(self.unrouted) > 0):
            self.route(request)
        if host is not None and self.trials.host is None:
            for request in list(self.unrouted):
                self.reroute(request)
