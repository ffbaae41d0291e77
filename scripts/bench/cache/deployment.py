"""A server of its own for a measurement: `sapwood serve` on a free port, with a run directory that goes with it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 60


@dataclass(frozen=True)
class Deployment:
    url: str
    process: subprocess.Popen[bytes]

    def cpu_s(self) -> float:
        """CPU time of all its processes so far."""
        parent = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (parent, *parent.children(recursive=True))]
        return sum(time.user + time.system for time in times)


@contextmanager
def deployed(*arguments: str) -> Iterator[Deployment]:
    """A server that is ready, started with these arguments of `sapwood serve`; it ends with the script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        log = Path(folder) / "log"
        port = free_port()
        command = [sys.executable, "-m", "sapwood", "serve", "--port", str(port), "--run-dir", folder, *arguments]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, log)
            yield Deployment(f"http://127.0.0.1:{port}", process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while "Sapwood is ready at" not in log.read_text():
        if process.poll() is not None or time.monotonic() > end_s:
            raise RuntimeError(f"the server did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
