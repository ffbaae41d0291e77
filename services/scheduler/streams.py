"""Which detokenizer streams which request, and what has been said to it.

A detokenizer keeps an opened request until it hears its end, and tells the gateway of it. An attempt that is lost must
not end in the client's eyes, so its stream is closed only when the gateway has certainly moved on. Until then it
lingers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from services.scheduler.events import Send
from services.scheduler.request import Key, Request
from shared import wire

LINGER_S = 600.0  # of a gateway that never comes back


class Lingering(NamedTuple):
    detokenizer: str
    end: wire.TokenUpdate
    until_s: float


class Streams:
    def __init__(self) -> None:
        self._requests: dict[str, dict[Key, Request]] = {}  # by detokenizer
        self._updates: dict[str, list[wire.TokenUpdate]] = {}  # by detokenizer, of the event in hand
        self._lingering: dict[Key, Lingering] = {}

    def __len__(self) -> int:
        """Detokenizers."""
        return len(self._requests)

    @property
    def lingering(self) -> list[Key]:
        return list(self._lingering)

    def requests(self, detokenizer: str) -> list[Request]:
        return list(self._requests.get(detokenizer, {}).values())

    def join(self, detokenizer: str) -> None:
        self._requests[detokenizer] = {}

    def leave(self, detokenizer: str) -> list[Request]:
        """Returns the requests that it streamed."""
        self._updates.pop(detokenizer, None)
        self._lingering = {key: held for key, held in self._lingering.items() if held.detokenizer != detokenizer}
        return list(self._requests.pop(detokenizer, {}).values())

    def open(self, request: Request) -> Iterator[Send]:
        """Choose a detokenizer, unless it is chosen: the one with the fewest requests."""
        if request.detokenizer is None:
            detokenizer = min(self._requests, key=lambda peer: len(self._requests[peer]))
            self._requests[detokenizer][request.key] = request
            request.detokenizer = detokenizer
            yield Send(detokenizer, request.open())

    def update(self, request: Request, update: wire.TokenUpdate) -> None:
        """Nothing leaves before `flush`: one batch for each detokenizer and event."""
        if request.detokenizer is not None:
            self._updates.setdefault(request.detokenizer, []).append(update)
            request.streamed = True

    def forget(self, request: Request) -> None:
        if request.detokenizer is not None:
            self._requests.get(request.detokenizer, {}).pop(request.key, None)
            request.detokenizer = None

    def linger(self, request: Request, now_s: float) -> None:
        """The attempt is lost: its stream is closed later."""
        if request.detokenizer in self._requests:
            end = request.ending("abort")
            self._lingering[request.key] = Lingering(request.detokenizer, end, now_s + LINGER_S)

    def close(self, is_over: Callable[[Key, int], bool]) -> None:
        """Close the lingering streams of attempts (key, attempt) that the gateway has left behind."""
        for key in [key for key, held in self._lingering.items() if is_over(key, held.end.attempt)]:
            self._close(key)

    def close_oldest(self, now_s: float) -> None:
        while self._lingering and self._lingering[key := next(iter(self._lingering))].until_s <= now_s:
            self._close(key)

    def _close(self, key: Key) -> None:
        held = self._lingering.pop(key)
        self._updates.setdefault(held.detokenizer, []).append(held.end)

    def flush(self) -> Iterator[Send]:
        for detokenizer, updates in self._updates.items():
            yield Send(detokenizer, wire.TokenBatch(tuple(updates)))
        self._updates = {}
