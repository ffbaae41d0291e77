"""Starts a peer by its name, waits until it answers, and ends it with the script."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from scripts.bench.cache.deployment import Deployment, free_port

from .install import folder
from .models import WEIGHTS
from .registry import PEERS, Start

START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 30
LOG_CHARACTERS = 12_000  # of a log, when it did not start


@contextmanager
def launched(name: str, threads: int) -> Iterator[Deployment]:
    """Raises RuntimeError, with the end of its log, if it does not come up."""
    peer = PEERS[name]
    start = Start(folder(peer.environment), WEIGHTS[peer.weights](), free_port(), threads)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = {**inherited, **peer.variables(start)}
    with tempfile.TemporaryDirectory(prefix="sapwood-peer-") as place:
        log = Path(place) / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                peer.command(start), stdout=file, stderr=file, env=variables, cwd=place, start_new_session=True
            )
        try:
            deployment = Deployment(f"http://127.0.0.1:{start.port}", process)
            _wait_until_it_answers(deployment, log)
            yield deployment
        finally:
            _end(process)


def _wait_until_it_answers(deployment: Deployment, log: Path) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while not _answers(deployment.url):
        if deployment.process.poll() is not None or time.monotonic() > end_s:
            raise RuntimeError(f"the peer did not start:\n{log.read_text(errors='replace')[-LOG_CHARACTERS:]}")
        time.sleep(0.5)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/models", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """It leads a process group of its own, and takes its children with it."""
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
