"""What a deployment holds, counted from outside: in /proc, in its folders, and by its pool's own accounting.

Knows no stage. A census is taken of a deployment at rest, so what two of them differ by was left behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tests.support.deployment import Deployment, wait_until

REST_S = 60.0
SLACK_DESCRIPTORS = 3  # a probe's connection, a link that is being dialled
SLACK_THREADS = 6  # pools of threads grow up to a bound, as they are used
SLACK_MEMORY = 1.3, 96 << 20  # times, plus bytes: caches fill up to their budgets
SMALL_POOL = ("--max-total-tokens", "8192")  # its pages become resident as they are first used
GAUGES = (
    "sapwood_running_requests",
    "sapwood_waiting_requests",
    "sapwood_compiling_requests",
    "sapwood_open_requests",
    "sapwood_kv_pinned_tokens",
)


@dataclass(frozen=True)
class Holdings:
    """Of one process."""

    descriptors: int
    threads: int
    resident_bytes: int

    def excess_over(self, base: Holdings) -> str | None:
        factor, more = SLACK_MEMORY
        if self.descriptors > base.descriptors + SLACK_DESCRIPTORS:
            return f"{self.descriptors} descriptors, {base.descriptors} before"
        if self.threads > base.threads + SLACK_THREADS:
            return f"{self.threads} threads, {base.threads} before"
        if self.resident_bytes > base.resident_bytes * factor + more:
            return f"{self.resident_bytes >> 20} MiB, {base.resident_bytes >> 20} MiB before"
        return None


@dataclass(frozen=True)
class Census:
    processes: Mapping[str, Holdings]
    files: frozenset[str]  # in the run directory and in the folder for temporary files
    sockets: int  # bound in the run directory

    def check(self, base: Census) -> None:
        assert self.processes.keys() == base.processes.keys(), self.processes.keys() ^ base.processes.keys()
        found = {name: held.excess_over(base.processes[name]) for name, held in self.processes.items()}
        excess = {name: what for name, what in found.items() if what is not None}
        assert not excess, excess
        assert self.files == base.files, self.files ^ base.files
        assert self.sockets == base.sockets, f"{self.sockets} sockets, {base.sockets} before"


def take(deployment: Deployment) -> Census:
    """Once it is at rest: all is ready, gauges are back, the accounts of the pool are exact, a request is answered."""
    wait_until(lambda: is_ready(deployment), REST_S, "ready again")
    wait_until(lambda: all(gauge == 0 for gauge in gauges(deployment).values()), REST_S, f"{gauges(deployment)} are 0")
    deployment.generate("Hi", max_new_tokens=1)
    wait_until(lambda: all(gauge == 0 for gauge in gauges(deployment).values()), REST_S, "all gauges back")
    check_pool(deployment)
    return Census(holdings(deployment), files(deployment), bound_sockets(deployment))


def is_ready(deployment: Deployment) -> bool:
    """Every process, not only one of each stage."""
    states = [deployment.status(path.stem)["state"] for path in (deployment.run_dir / "status").glob("*.json")]
    return all(state == "ready" for state in states) and answers_ready(deployment.url)


def answers_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


def gauges(deployment: Deployment) -> dict[str, float]:
    text = httpx.get(f"{deployment.url}/metrics").text
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE) if name in GAUGES}


def check_pool(deployment: Deployment) -> None:
    """Nothing runs, so every slot is free or cached; the executor itself looks at each slot's owner."""
    told = httpx.get(f"{deployment.url}/server_info", timeout=30).json()
    for name, executor in told["scheduler"]["executors"].items():
        assert executor["free_tokens"] + executor["evictable_tokens"] == executor["capacity_tokens"]
        assert told["executors"][name]["integrity"] == "ok"


def holdings(deployment: Deployment) -> dict[str, Holdings]:
    found = {}
    for process in deployment.processes():
        assert process.status() != psutil.STATUS_ZOMBIE, process
        assert not shared_memory(process.pid), "no stage has a use for shared memory, so none is left behind"
        held = Holdings(process.num_fds(), process.num_threads(), process.memory_info().rss)
        found[name_of(process)] = held
    return found


def name_of(process: psutil.Process) -> str:
    line = process.cmdline()
    return line[line.index("--name") + 1] if "--name" in line else line[line.index("-m") + 1]


def shared_memory(pid: int) -> list[str]:
    mapped = re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text())
    opened = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists()]
    return mapped + [path for path in opened if path.startswith("/dev/shm/")]


def files(deployment: Deployment) -> frozenset[str]:
    inside = deployment.run_dir.rglob("*")
    return frozenset(str(path.relative_to(deployment.run_dir)) for path in inside if "__pycache__" not in path.parts)


def bound_sockets(deployment: Deployment) -> int:
    listening = [line for line in Path("/proc/net/unix").read_text().splitlines() if str(deployment.run_dir) in line]
    return sum(line.split()[3] == "00010000" for line in listening)  # __SO_ACCEPTCON
