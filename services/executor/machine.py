"""How much memory this process may use of a device, as far as the container it runs in allows.

Knows devices, /proc and control groups. Does not know what the memory is for.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

CGROUP = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 62


def available_bytes(device: torch.device, cgroup: Path = CGROUP) -> int:
    """Memory of the device that could be allocated now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_host_bytes(), _container_bytes(cgroup))


def _host_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available_kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return int(available_kib) * 1024


def _container_bytes(cgroup: Path) -> int:
    """What the limit leaves. Cached file pages that are not in use count as free: the kernel would drop them."""
    try:
        limit, used = (int((cgroup / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
        statistics = dict(line.split() for line in (cgroup / "memory.stat").read_text("ascii").splitlines())
        return limit - used + int(statistics["inactive_file"])
    except (OSError, ValueError):  # no control group, or "max"
        return NO_LIMIT
