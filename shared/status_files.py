"""What a supervisor writes down of its processes in the run directory, read by others. Knows the files alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

FRESH_S = 15.0  # a process whose file is older makes no progress


def status_files(run_dir: Path) -> list[Path]:
    return sorted((run_dir / "status").glob("*.json"))


def trouble(status_file: Path) -> str | None:
    """What is wrong with a process, in words."""
    status, age_s = json.loads(status_file.read_text()), time.time() - status_file.stat().st_mtime
    if status["state"] == "ready" and age_s <= FRESH_S:
        return None
    state = "stands still" if status["state"] == "ready" else status["state"]
    return f"{status_file.stem} ({state} for {age_s:.0f} s, started again {status['restarts']} times)"
