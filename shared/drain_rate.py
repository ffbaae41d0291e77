"""How fast a queue has been draining, and so how long it takes until there is room. Pure: time comes in.

Knows when how much has left. Does not know who waits, or what the queue's bounds are.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW_S = 30.0  # what was before says little about now
WINDOW_LEAVINGS = 256
LEAST_GUESS_S = 0.05


class Leaving(NamedTuple):
    at_s: float
    tokens: int


class DrainRate:
    def __init__(self) -> None:
        self._since_s = float("-inf")
        self._leavings: deque[Leaving] = deque(maxlen=WINDOW_LEAVINGS)

    def restart(self, now_s: float) -> None:
        """Nobody was waiting until now: how fast the queue drained before says nothing."""
        self._since_s = now_s
        self._leavings.clear()

    def left(self, now_s: float, tokens: int = 0) -> None:
        """A request has left the queue."""
        self._leavings.append(Leaving(now_s, tokens))

    def wait_s(self, now_s: float, *, requests: float = 0, tokens: float = 0) -> float | None:
        """How long it takes until so many requests, and so many tokens, have left; None if it is not known."""
        elapsed_s = now_s - self._window_start(now_s)
        left_requests, left_tokens = len(self._leavings), sum(leaving.tokens for leaving in self._leavings)
        if (requests and not left_requests) or (tokens and not left_tokens):
            return None
        return elapsed_s * max(requests / max(left_requests, 1), tokens / max(left_tokens, 1))

    def about_s(self, now_s: float, *, requests: float = 0, tokens: float = 0) -> float:
        """The same, with a guess where it is not known."""
        wait_s = self.wait_s(now_s, requests=requests, tokens=tokens)
        return self.guess_s(now_s) if wait_s is None else wait_s

    def guess_s(self, now_s: float) -> float:
        """Where it is not known: as long as nothing has left."""
        return max(now_s - max([self._since_s, *(leaving.at_s for leaving in self._leavings)]), LEAST_GUESS_S)

    def _window_start(self, now_s: float) -> float:
        """Forgets what was before it."""
        start_s = max(self._since_s, now_s - WINDOW_S)
        while self._leavings and self._leavings[0].at_s < start_s:
            self._leavings.popleft()
        return self._leavings[0].at_s if len(self._leavings) == WINDOW_LEAVINGS else start_s
