"""The kernels once more, compiled for a processor with vectors half as long and no dot products of integers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.executor.kernels.vector import FEATURES

FOLDER = Path(__file__).parent
FILES = ("test_linear.py", "test_mask.py", "test_rows.py", "test_team.py", "test_tile.py", "test_vector.py")


@pytest.mark.skipif("+avx512f" not in FEATURES, reason="these are the vectors of this processor")
def test_vectors_of_eight():
    chosen = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c,+avx,+sse4.2"}
    command = [sys.executable, "-m", "pytest", "-q", *(str(FOLDER / name) for name in FILES)]
    done = subprocess.run(command, env={**os.environ, **chosen}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
