"""Lines to a descriptor or a file, written by a thread of their own: whoever writes a line neither waits nor fails.

A full disk, a reader that has stopped and one that is gone cost lines, which are counted, and not the process. Knows
bytes. Does not know what is in a line.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

MOST_BYTES = 4 * 1024 * 1024  # held for a reader that is slow
DRAIN_S = 1.0

LOST = b'{"event":"log_lines_lost","count":%d}\n'


class LineWriter:
    """A file as far as loggers need one. The thread starts with the first line.

    Args:
        target: a descriptor, or what writes to one: it says how many bytes it has taken.
    """

    def __init__(self, target: int | Callable[[bytes], int], *, most_bytes: int = MOST_BYTES) -> None:
        self._write = partial(os.write, target) if isinstance(target, int) else target
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()  # the first one is being written
        self._held_bytes = 0
        self._lost = 0  # since it was last said
        self._thread: threading.Thread | None = None

    def write(self, text: str | bytes) -> None:
        line = text.encode(errors="backslashreplace") if isinstance(text, str) else text
        with self._changed:
            if self._held_bytes + len(line) > self._most_bytes:
                self._lost += 1
                return
            self._lines.append(line)
            self._held_bytes += len(line)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="log", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Loggers call it after each line. Nobody waits for a line."""

    def drain(self, timeout_s: float = DRAIN_S) -> bool:
        """Before the process ends: wait until all is written, but not for ever."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line, lost = self._lines[0], self._lost
            is_told = not lost or self._put(LOST % lost)
            is_written = is_told and self._put(line)
            with self._changed:
                self._lines.popleft()
                self._held_bytes -= len(line)
                self._lost += (not is_written) - (lost if is_told else 0)
                self._changed.notify_all()

    def _put(self, line: bytes) -> bool:
        """One write a line, so that lines of several processes do not mix."""
        try:
            while line:
                line = line[self._write(line) :]
        except OSError:
            return False
        return True
