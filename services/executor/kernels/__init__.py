"""The forward pass of the CPU, compiled by numba: explicit vectors, one team of threads, one call a step.

Compiling takes up to a minute, so what is compiled is kept on disk. Numba looks at one file at a time and would not
notice that another one has changed; therefore each state of these files has a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numba

_SOURCES = sorted(Path(__file__).parent.glob("*.py"))
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:12]


def _cache_folder() -> str:
    """Below NUMBA_CACHE_DIR, if that is set; for this process alone where nothing else can be written."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(numba.config.CACHE_DIR or Path(home) / "sapwood" / "kernels") / _DIGEST
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except OSError:
        return tempfile.mkdtemp(prefix="sapwood-kernels-")


numba.config.CACHE_DIR = _cache_folder()
