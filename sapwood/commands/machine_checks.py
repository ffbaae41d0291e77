"""What `sapwood doctor` asks of the machine it runs on. Knows no configuration and no server."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood._version import __version__
from sapwood.commands.findings import Finding, ok, skipped, warning
from sapwood.server_code import INSTALL

FEWEST_CORES = 2
LEAST_MEMORY_BYTES = 2 << 30  # for the bundled model and all stages
FEWEST_DESCRIPTORS = 4096

GIB = 1 << 30
MEMORY = Path("/proc/meminfo")


def check_machine(missing_modules: Sequence[str], memory: Path = MEMORY) -> list[Finding]:
    return [_versions(missing_modules), _cores(), _memory(memory), _descriptors()]


def _versions(missing_modules: Sequence[str]) -> Finding:
    says = f"sapwood {__version__}, Python {platform.python_version()}"
    if not missing_modules:
        return ok("versions", says)
    names = ", ".join(missing_modules)
    return skipped("versions", f"{says}, without the server ({names})", f"on a server, in a clone: {INSTALL}")


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < FEWEST_CORES:
        return warning("cores", f"{count} at hand", "the executor and the other stages take turns: give it two or more")
    return ok("cores", f"{count} at hand")


def _memory(file: Path) -> Finding:
    try:
        facts = dict(line.split(":", 1) for line in file.read_text("ascii").splitlines())
        free = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return skipped("memory", f"not known on {sys.platform}")
    if free < LEAST_MEMORY_BYTES:
        return warning("memory", f"{free / GIB:.1f} GiB available", "a server of the bundled model takes about 2 GiB")
    return ok("memory", f"{free / GIB:.1f} GiB available")


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FEWEST_DESCRIPTORS and soft != resource.RLIM_INFINITY:
        fix = f"each client takes one: ulimit -n {max(hard, FEWEST_DESCRIPTORS)} before the start"
        return warning("open files", f"a process may have {soft}", fix)
    return ok("open files", f"a process may have {soft}")
