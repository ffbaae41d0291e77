"""`sapwood health`: whether the processes of a run directory make progress, by the supervisor's status files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood.output import until_the_reader_stops
from shared.server_command import about_server
from shared.status_files import status_files, troubles


def main(argv: Sequence[str] | None = None) -> int:
    return about_server("health", argv, _health)


def _health(run_dir: Path) -> int:
    bad = [f"{name} ({trouble})" for name, trouble in troubles(run_dir).items()]
    if bad or not status_files(run_dir):
        none = f"no process in {run_dir}; --run-dir or --port says which server"
        sys.stdout.write(f"not healthy: {', '.join(bad) or none}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
