"""Log lines as they are written: those of one file, or of all `*.jsonl` files in a folder, which are rotated.

A file that was renamed away is read to its end before the one in its place is begun. Knows files and line ends. Does
not know what is in a line, and does not wait: whoever reads asks again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 1024 * 1024  # what is longer is no line of ours
SUFFIX, OLDER_SUFFIX = ".jsonl", ".jsonl.1"


class LogReader:
    """Args:
    place: a file, or a folder, which may be empty as yet.
    history_bytes: how much of what each file has already is read; None: all of it.
    """

    def __init__(self, place: Path, *, history_bytes: int | None = None) -> None:
        self._place = place
        self._history_bytes = history_bytes
        self._files: dict[Path, _Followed] = {}
        self._is_first = True

    def read(self) -> Iterator[list[bytes]]:
        """What there is now that was not read before, in portions. A line without an end waits for it."""
        if self._is_first:
            self._is_first = False
            for older in self._older_files():
                with contextlib.suppress(OSError), _Followed(older, self._history_bytes) as file:
                    yield from file.read()
        for path in self._paths():
            if path not in self._files:
                with contextlib.suppress(OSError):  # it was moved away just now
                    self._files[path] = _Followed(path, self._history_bytes)
            if path in self._files:
                yield from self._files[path].read()
        self._history_bytes = None  # files that come later are new

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _paths(self) -> list[Path]:
        """Those that are gone too: they may have been renamed, and have an end that was not read."""
        found = self._place.glob(f"*{SUFFIX}") if self._place.is_dir() else [self._place]
        return sorted({*found, *self._files})

    def _older_files(self) -> list[Path]:
        return sorted(self._place.glob(f"*{OLDER_SUFFIX}")) if self._place.is_dir() else []


class _Followed:
    """One path. Raises OSError if there is no file."""

    def __init__(self, path: Path, history_bytes: int | None) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._begun = b""  # a line whose end has not come
        size = os.fstat(self._file.fileno()).st_size
        if history_bytes is not None and size > history_bytes:
            self._file.seek(size - history_bytes)
            self._file.readline(LONGEST_LINE)

    def __enter__(self) -> _Followed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def read(self) -> Iterator[list[bytes]]:
        yield from self._rest()
        while (newer := self._newer()) is not None:
            self.close()
            self._file, self._begun = newer, b""
            yield from self._rest()

    def _rest(self) -> Iterator[list[bytes]]:
        if os.fstat(self._file.fileno()).st_size < self._file.tell():  # it was cut short
            self._file.seek(0)
            self._begun = b""
        while chunk := self._file.read(CHUNK_BYTES):
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            if len(self._begun) > LONGEST_LINE:
                self._begun = b""
            if lines:
                yield lines

    def _newer(self) -> BinaryIO | None:
        """Another file that has taken the path."""
        try:
            file = self._path.open("rb")
        except OSError:
            return None
        if os.path.sameopenfile(file.fileno(), self._file.fileno()):
            file.close()
            return None
        return file
