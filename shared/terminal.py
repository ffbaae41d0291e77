"""Whether the terminal that a process was started from is gone. SIGHUP alone does not tell: it is also sent on purpose.

Who was started to outlive its terminal (nohup ignores SIGHUP) has none, as far as this is concerned.
"""

from __future__ import annotations

import os
import signal


class Terminal:
    def __init__(self) -> None:
        self._was_there = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN and _is_there()

    def is_gone(self) -> bool:
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
