"""Files that nobody but this user may open."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """What is made meanwhile is for this user alone."""
    umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(umask)
