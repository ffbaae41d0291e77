"""How a command meets its streams, whatever they are: closed, full, or of a terminal that has not all characters.

When whoever reads its output stops (`sapwood trace … | head`), so does the command, without a word.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable

EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE
EXIT_NO_TEXT = 65
EXIT_NO_OUTPUT = 74


def until_the_reader_stops(command: Callable[[], int]) -> int:
    """The exit code."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_output()
        return EXIT_BROKEN_PIPE
    except UnicodeDecodeError as error:
        print(f"sapwood: the input is no text: {error}", file=sys.stderr)
        return EXIT_NO_TEXT
    except OSError as error:
        _leave_output()
        print(f"sapwood: {error}", file=sys.stderr)
        return EXIT_NO_OUTPUT


def _open_what_is_closed() -> None:
    """Python has None for such a stream: nothing comes from it, and what is written is lost."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - to the end of the process


def _leave_output() -> None:
    """For what the interpreter flushes at its end."""
    with contextlib.suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
