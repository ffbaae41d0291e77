"""`sapwood reload`: the gateway of a run directory reads its files of keys anew. What came of it is in its log."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood.output import until_the_reader_stops
from shared.server_command import about_server
from shared.status_files import status_files, trouble

EXIT_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    return about_server("reload", argv, _reload)


def _reload(run_dir: Path) -> int:
    found = [(file, json.loads(file.read_text())) for file in status_files(run_dir)]
    gateways = [(file, process) for file, process in found if process.get("reads_at_hangup")]
    ready = [
        process["pid"] for file, process in gateways if trouble(file) is None
    ]  # else the pid may be another's by now
    for pid in ready:
        with contextlib.suppress(ProcessLookupError):  # the next one reads them at its start
            os.kill(pid, signal.SIGHUP)
    if not ready:
        none = "a gateway that starts reads its keys by itself" if gateways else "--run-dir or --port says which server"
        sys.stderr.write(f"sapwood: no gateway is ready in {run_dir}; {none}\n")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
