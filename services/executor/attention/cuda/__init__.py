"""Attention on CUDA devices, in Triton: `plan` cuts a step into pieces of even size, `kernels` computes them.

Everything but `is_available` needs the package triton, so `backend` is imported only where it is there.
"""

from __future__ import annotations

from importlib.util import find_spec


def is_available() -> bool:
    """Triton is installed, as torch's own wheels for CUDA have it; without it the reference backend runs there."""
    return find_spec("triton") is not None
