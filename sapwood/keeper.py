"""Runs a server for as long as whoever started it lives: `python -m sapwood.keeper COMMAND…`.

Standard input is the lifeline. Its end, by whatever death of the other side, stops the server as SIGTERM does. Knows
nothing else of either.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence


def main(command: Sequence[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server's, not ours: see below
    threading.Thread(target=_stop_at_the_end_of_input, args=(server,), daemon=True).start()
    code = server.wait()
    return code if code >= 0 else 128 - code


def _stop_at_the_end_of_input(server: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 64):
        pass
    os.killpg(0, signal.SIGTERM)  # with what it runs itself: a model that is being converted has no lifeline


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
