"""How many cores of the machine this process may use: what it is bound to, within its control group's quota.

Knows the kernel's limits. Does not know what the cores are for, or what a library makes of them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(bound, math.ceil(_quota_cores(cgroup))))


def _quota_cores(cgroup: Path) -> float:
    try:
        quota, period = (cgroup / "cpu.max").read_text("ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no control group, or "max"
        return float(1 << 30)
