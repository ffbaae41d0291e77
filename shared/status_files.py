"""What a supervisor writes down of its processes in the run directory, read by others. Knows the files alone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

FRESH_S = 15.0  # a process whose file is older makes no progress


class Trouble(NamedTuple):
    """Of a process that makes no progress."""

    state: str
    state_s: float  # for how long it has been so
    restarts: int
    next_start_s: float | None  # until it is started again, where it waits for that

    def __str__(self) -> str:
        times = {0: "", 1: ", started again once"}.get(self.restarts, f", started again {self.restarts} times")
        past = f"{self.state} for {self.state_s:.0f} s{times}"
        return past if self.next_start_s is None else f"{past}, next in {self.next_start_s:.1f} s"


def status_files(run_dir: Path) -> list[Path]:
    return sorted((run_dir / "status").glob("*.json"))


def trouble(status_file: Path) -> Trouble | None:
    """What is wrong with a process. Raises FileNotFoundError."""
    status, age_s = json.loads(status_file.read_text()), max(0.0, time.time() - status_file.stat().st_mtime)
    if status["state"] == "ready" and age_s <= FRESH_S:
        return None
    state = "stands still" if status["state"] == "ready" else status["state"]
    pause_s = status.get("pause_s")
    next_start_s = None if pause_s is None else round(max(0.0, pause_s - age_s), 1)
    return Trouble(state, round(age_s, 1), status["restarts"], next_start_s)


def troubles(run_dir: Path) -> dict[str, Trouble]:
    """By name, of the processes that have any."""
    found = {file.stem: trouble(file) for file in status_files(run_dir)}
    return {name: one for name, one in found.items() if one is not None}
