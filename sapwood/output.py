"""When whoever reads a command's output stops (`sapwood trace … | head`), so does the command, without a word."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE


def until_the_reader_stops(command: Callable[[], int]) -> int:
    """The exit code."""
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter flushes at its end
        return EXIT_BROKEN_PIPE
