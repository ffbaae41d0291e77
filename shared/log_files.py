"""A process's own log file: JSON lines beside those on stdout, for who reads the logs of all stages in one folder.

Knows files and their sizes. Does not know what is in a line. A file that has reached its size becomes `.1`, and what
was `.1` before is gone, so that a process keeps twice that size at most.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from shared.config import ConfigError, LoggingConfig
from shared.log_writer import LineWriter

ENDING = ".jsonl"
ODD = "/\\\0"  # what a name of a process may not have in the name of its file


def log_file(settings: LoggingConfig, run_dir: str, service: str) -> LineWriter | None:
    """Where this process keeps its lines; None: nowhere. Raises ConfigError if it cannot."""
    folder = settings.kept_in(run_dir)
    if folder is None:
        return None
    name = "".join("_" if letter in ODD else letter for letter in service)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LineWriter(RotatedFile(folder / f"{name}{ENDING}", settings.max_file_bytes).write)
    except OSError as error:
        raise ConfigError(f"logging.directory: cannot write to {folder}: {error.strerror}") from error


class RotatedFile:
    """Only what has one line in it may be longer than that. Raises OSError where it cannot be opened or written."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._descriptor = _open(path)
        self._bytes = os.fstat(self._descriptor).st_size

    def write(self, line: bytes) -> int:
        """How many bytes are written."""
        if self._bytes and self._bytes + len(line) > self._max_bytes:
            self._rotate()
        written = os.write(self._descriptor, line)
        self._bytes += written
        return written

    def _rotate(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # somebody has removed it
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        fresh = _open(self._path)
        os.close(self._descriptor)
        self._descriptor, self._bytes = fresh, 0


def _open(path: Path) -> int:
    """Only a plain file, and not one behind a link that somebody else has put there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no file")
    return descriptor
