"""What others said on a link that cannot be: all of it is counted, a line in the log comes at most once a second.

The words may be an attacker's: they are cut and escaped here. Knows the log and a clock, no message.
"""

from __future__ import annotations

from collections.abc import Callable

from shared import logging

QUIET_S = 1.0
MAX_CHARACTERS = 200


class Complaints:
    """`count` is of all since the start."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.count = 0
        self._clock = clock
        self._log = logging.get()
        self._logged = 0  # of them
        self._logged_s = float("-inf")
        self._latest = ("", "")

    def note(self, who: bytes | str, reason: str) -> None:
        self.count += 1
        self._latest = (printable(who), printable(reason))
        self.tick()

    def tick(self) -> None:
        """Log what has come together, if it is time."""
        now_s = self._clock()
        if self.count == self._logged or now_s - self._logged_s < QUIET_S:
            return
        who, reason = self._latest
        self._log.warning("link_refused", peer=who, reason=reason, times=self.count - self._logged, in_all=self.count)
        self._logged, self._logged_s = self.count, now_s


def printable(words: bytes | str) -> str:
    """On one line, in ASCII, and not long."""
    text = words.decode("latin-1") if isinstance(words, bytes) else words
    return ascii(text[:MAX_CHARACTERS])[1:-1]
