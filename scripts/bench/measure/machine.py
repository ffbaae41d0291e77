"""What a figure was measured on: processor, memory, versions, revision. Read only; nothing is measured here."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "numba", "numpy", "transformers")
VECTOR_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "asimd")


def describe() -> dict[str, str]:
    flags = _cpu_info("flags") or _cpu_info("Features")
    return {
        "processor": _cpu_info("model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "vectors": " ".join(name for name in VECTOR_FLAGS if name in flags.split()),
        "memory_gib": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f}",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "revision": _revision(),
    }


def in_words(machine: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items() if value)


def _cpu_info(key: str) -> str:
    """The first such line's value; empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.split(":")[0].strip() == key), "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _revision() -> str:
    """The commit, with "+" where the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
