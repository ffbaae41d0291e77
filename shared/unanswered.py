"""Which of the addresses that a process dials do not answer: told of in its log, once until they do.

Knows a clock and words, no socket.
"""

from __future__ import annotations

from collections.abc import Callable

from shared import logging


class Unanswered:
    """Args:
    patience_s: how long an answer may take.
    """

    def __init__(self, clock: Callable[[], float], patience_s: float) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._since_s: dict[str, float] = {}
        self._told: set[str] = set()
        self._log = logging.get()

    def waits(self, address: str, reason: str) -> None:
        """There is no answer yet, and why that may be."""
        waited_s = self._clock() - self._since_s.setdefault(address, self._clock())
        if waited_s >= self._patience_s and address not in self._told:
            self._told.add(address)
            self._log.warning("link_unanswered", address=address, reason=reason, waited_s=round(waited_s, 1))

    def answers(self, address: str) -> None:
        if address in self._told:
            self._log.info("link_answered", address=address)
        self.forget(address)

    def forget(self, address: str) -> None:
        """It is dialled no longer."""
        self._since_s.pop(address, None)
        self._told.discard(address)
