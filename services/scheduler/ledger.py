"""The book of requests: those that are open here, and for a while the highest attempt of those that no longer are.

Knows who named what and which attempt counts. Does not know where a request runs.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from services.scheduler.request import Key, Request
from shared import wire

REMEMBER_S = 600.0
REMEMBER_REQUESTS = 20_000
DELIVERY_S = 2.0  # what a detokenizer may take to deliver an ending


class Place(NamedTuple):
    """In the queue: a request keeps it over all its attempts."""

    order: int  # of arrival
    arrived_s: float


class Ended(NamedTuple):
    attempt: int
    ended_s: float
    delivered: bool  # its ending went to the detokenizer
    place: Place | None  # None if no attempt was ever taken in


class Audited(NamedTuple):
    lost: list[wire.AuditEntry]  # held open there, and unknown here
    orphans: list[Request]  # open here, and no longer held there


class Ledger:
    def __init__(self) -> None:
        self.open: dict[Key, Request] = {}
        self._ended: OrderedDict[Key, Ended] = OrderedDict()  # by time

    @property
    def remembered(self) -> int:
        return len(self._ended)

    def is_stale(self, key: Key, attempt: int) -> bool:
        """Whether this attempt, or a newer one, is known already or over."""
        request, ended = self.open.get(key), self._ended.get(key)
        return attempt <= max(request.attempt if request else 0, ended.attempt if ended else 0)

    def place(self, key: Key) -> Place | None:
        """Where an earlier attempt stood that is over."""
        ended = self._ended.get(key)
        return ended.place if ended is not None else None

    def add(self, request: Request) -> None:
        self.open[request.key] = request

    def end(self, request: Request, now_s: float, *, delivered: bool) -> None:
        del self.open[request.key]
        place = Place(request.order, request.arrived_s)
        self._remember(request.key, Ended(request.attempt, now_s, delivered, place))

    def bury(self, key: Key, attempt: int, now_s: float) -> None:
        """This attempt and all before it are over, also those that are still to arrive."""
        self._remember(key, Ended(attempt, now_s, delivered=False, place=None))

    def _remember(self, key: Key, ended: Ended) -> None:
        earlier = self._ended.pop(key, None)
        if earlier is not None:
            highest = max(ended, earlier, key=lambda candidate: candidate.attempt)
            ended = highest._replace(ended_s=ended.ended_s, place=ended.place or earlier.place)
        self._ended[key] = ended
        while len(self._ended) > REMEMBER_REQUESTS:
            self._ended.popitem(last=False)

    def forget(self, now_s: float) -> None:
        """What ended long ago."""
        while self._ended and now_s - next(iter(self._ended.values())).ended_s > REMEMBER_S:
            self._ended.popitem(last=False)

    def of_gateway(self, gateway: str) -> list[Request]:
        return [request for key, request in self.open.items() if key[0] == gateway]

    def audit(self, gateway: str, audit: wire.Audit, now_s: float) -> Audited:
        """Compare with what the gateway holds open. An audit may be overtaken, so it takes two to make an orphan."""
        listed = {entry.request_id: entry.attempt for entry in audit.open}
        orphans = []
        for request in self.of_gateway(gateway):
            held = listed.get(request.submit.request_id, 0) >= request.attempt
            request.unlisted_audits = 0 if held else request.unlisted_audits + 1
            if request.unlisted_audits > 1:
                orphans.append(request)
        lost = [entry for entry in audit.open if entry.settled and self._is_lost(gateway, entry, now_s)]
        return Audited(lost, orphans)

    def _is_lost(self, gateway: str, entry: wire.AuditEntry, now_s: float) -> bool:
        key = (gateway, entry.request_id)
        request, ended = self.open.get(key), self._ended.get(key)
        if request is not None and request.attempt >= entry.attempt:
            return False
        if ended is None or ended.attempt < entry.attempt:
            return True
        return not ended.delivered or now_s - ended.ended_s >= DELIVERY_S
