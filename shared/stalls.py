"""Notices when a process has stood still, and says so: its event loop, or the piece of work in hand beside it.

Knows ticks, times and the log. Does not know why: the machine may have had no time for it, somebody may have stopped
it, or something in it took long.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared import logging

STALL_S = 1.0
QUIET_S = 10.0  # between two lines about the same thing


class Stalls:
    """Args:
    tick_s: the time between two ticks if all is well.
    """

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._ticked_s: float | None = None
        self._loop_stood_s = float("-inf")  # until then
        self._work_age_s = 0.0  # of what was in hand at the last tick
        self._loop, self._work = _Told("loop"), _Told("work")

    def tick(self, now_s: float, work_age_s: float) -> None:
        """Args:
        work_age_s: how long the work in hand has been going on; 0 if there is none.
        """
        self._note_loop(now_s)
        if work_age_s < self._work_age_s:
            self._work.note(self._work_age_s)
        began_before = now_s - work_age_s < self._loop_stood_s  # what stood still with the loop is told with it
        self._work_age_s = 0.0 if began_before else work_age_s
        self._loop.tell(now_s)
        self._work.tell(now_s)

    def _note_loop(self, now_s: float) -> None:
        late_s = 0.0 if self._ticked_s is None else now_s - self._ticked_s - self._tick_s
        self._ticked_s = now_s
        if self._loop.note(late_s):
            self._loop_stood_s = now_s


@dataclass
class _Told:
    """What there is to tell of one kind."""

    what: str
    longest_s: float = 0.0
    times: int = 0
    told_s: float = float("-inf")

    def note(self, seconds: float) -> bool:
        """Whether it was long enough to be told."""
        if seconds < STALL_S:
            return False
        self.longest_s = max(self.longest_s, seconds)
        self.times += 1
        return True

    def tell(self, now_s: float) -> None:
        if self.times and now_s - self.told_s >= QUIET_S:
            logging.get().warning("stalled", what=self.what, stalled_s=round(self.longest_s, 3), times=self.times)
            self.longest_s, self.times, self.told_s = 0.0, 0, now_s
