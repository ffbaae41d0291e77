"""Runs suspects with nobody else in the step: which group, at which executor, for how long.

    held ──begin──► at the host ──each is cleared, or over──► the host's next group, or the end
      ▲                  │
      └──turn is over────┘

One group is tried at a time. An executor that has nothing to do is its host: after a death the new one, as a rule. If
there is none for a while, a busy one is: what it has gives way, goes to other executors, and waits if there are none.
Then trials and others have turns of the same length, twice as long each time that one does not suffice, so that a
long prompt gets there at last. The plans in flight end before either side begins, so those of a death are of one kind.

Knows who is held and who is tried. Where all others wait is for `placement` to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.scheduler.executors import Executor
from services.scheduler.request import Key, Request
from services.scheduler.suspects import Group, Suspects

PATIENCE_S = 10.0  # for an executor that has nothing to do
TURN_S = 2.0  # the first one


class Trials:
    """Args:
    executors: those that are linked, by peer.
    """

    def __init__(self, executors: Mapping[str, Executor]) -> None:
        self._executors = executors
        self.suspects = Suspects()
        self.held: dict[Key, Request] = {}  # wait for their trial
        self.host: Executor | None = None  # takes nobody but those that are tried
        self._group: Group | None = None
        self._turn_began_s = 0.0
        self._next_turn_s = 0.0  # at a host that has something else to do

    def take(self, request: Request) -> bool:
        """A request that is to be routed stays here if it is a suspect."""
        group = self.suspects.group(request.key)
        if group is None:
            return False
        if self.host is not None and group is self._group and self.host.fits(request):
            self.host.enqueue(request)
        else:
            self.held[request.key] = request
        return True

    def release(self, request: Request) -> None:
        """Raises KeyError if it is not held."""
        del self.held[request.key]

    @property
    def is_busy(self) -> bool:
        return bool(self.suspects or self.held or self.host)

    def left(self, executor: Executor) -> None:
        if executor is self.host:
            self.host = self._group = None

    def review(self, now_s: float, *, crowded: bool) -> list[Request]:
        """Begin, interrupt or end a trial. Returns the requests that are to be routed anew, and are nowhere now.

        Args:
            crowded: requests wait that no executor takes.
        """
        self.suspects.forget(now_s)
        cleared = [request for request in self.held.values() if self.suspects.group(request.key) is None]
        for request in cleared:
            self.release(request)
        return cleared + (self._begin(now_s) if self.host is None else self._go_on(self.host, now_s, crowded=crowded))

    def _begin(self, now_s: float) -> list[Request]:
        for group in self.suspects:
            host = self._host_for(group, now_s)
            if host is not None:
                self._turn_began_s = now_s
                return self._try(group, host)
        return []

    def _go_on(self, host: Executor, now_s: float, *, crowded: bool) -> list[Request]:
        turns = self._group.turns if self._group is not None else 0
        is_turn_over = host.hangs or (crowded and now_s - self._turn_began_s >= TURN_S * 2**turns)
        tried = [request for request in _all_at(host) if self.suspects.group(request.key) is not None]
        if tried and not is_turn_over:
            return []
        following = next((group for group in self.suspects if self._present(group, host)), None)
        if following is not None and not is_turn_over:
            return self._try(following, host)
        self._end_turn(host, tried, now_s)
        return []

    def _host_for(self, group: Group, now_s: float) -> Executor | None:
        sound = [executor for executor in self._executors.values() if not executor.hangs]
        fitting = [executor for executor in sound if self._present(group, executor)]
        idle = [executor for executor in fitting if not executor.load and not executor.flights]
        if idle:
            return max(idle, key=lambda executor: executor.moves)  # one that is new does not yet
        patient_until_s = self._next_turn_s if group.turns else max(group.died_s + PATIENCE_S, self._next_turn_s)
        if now_s < patient_until_s:
            return None
        return min(fitting, key=lambda executor: executor.load, default=None)

    def _present(self, group: Group, executor: Executor) -> list[Request]:
        members = [self.held[key] for key in group.members if key in self.held]
        return [request for request in members if executor.fits(request)]

    def _try(self, group: Group, host: Executor) -> list[Request]:
        self.host, self._group = host, group
        others = list(_all_at(host))
        for request in others:
            _take_away(host, request)
        for request in self._present(group, host):
            self.release(request)
            host.enqueue(request)
        host.drains = True
        return others

    def _end_turn(self, host: Executor, tried: list[Request], now_s: float) -> None:
        """The others have theirs; who is not cleared is held again."""
        for request in tried:
            _take_away(host, request)
            self.held[request.key] = request
        if tried and self._group is not None:
            self._group.turns += 1
        self._next_turn_s = now_s + (now_s - self._turn_began_s)
        self.host = self._group = None
        host.drains = True


def _all_at(executor: Executor) -> list[Request]:
    return [*(lane.request for lane in executor.running()), *executor.queued]


def _take_away(executor: Executor, request: Request) -> None:
    """It is nowhere then."""
    if request.lane is not None:
        executor.preempt(request, "trial")
    executor.dequeue(request)
