"""The forward pass of the CPU, compiled by numba: explicit vectors, one team of threads, one call a step.

Compiling takes some ten seconds, so what is compiled is kept on disk. Numba looks at one file at a time and would not
notice that another one has changed; therefore each state of these files has a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numba

_SOURCES = sorted(Path(__file__).parent.glob("*.py"))
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:12]

if not numba.config.CACHE_DIR:
    _CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    numba.config.CACHE_DIR = str(_CACHE / "sapwood" / "kernels" / _DIGEST)
