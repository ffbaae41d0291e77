"""A real deployment: `sapwood serve` with every process, on a free port, its logs in a file."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

START_TIMEOUT_S = 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Poll until the condition holds and return what it returned; an assertion error after the timeout."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


class Deployment:
    """Started by `deployed`. `url` answers; `log_file` has every process's lines."""

    def __init__(self, run_dir: Path, *arguments: str) -> None:
        self.run_dir = run_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = run_dir / "log"
        self._arguments = arguments
        self._extra: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        temporary = self.run_dir / "tmp"  # what is left in it is ours
        temporary.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "sapwood", "serve", "--port", str(self.port), "--run-dir", str(self.run_dir)]
        self.started_s = time.monotonic()
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"TMPDIR": str(temporary)},
            )
        try:
            wait_until(self._is_ready, START_TIMEOUT_S, f"the ready line in {self.log_file}")
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise
        self.ready_after_s = time.monotonic() - self.started_s

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log_file.read_text()[-3000:]
        return "Sapwood is ready at" in self.log_file.read_text()

    def stop(self) -> None:
        for extra in self._extra:
            extra.kill()
            extra.wait()
        pids = [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        assert not [pid for pid in pids if psutil.pid_exists(pid)], "a child was left behind"

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_dir / "status" / f"{name}.json").read_text())
        return found

    def pid(self, name: str) -> int:
        return int(self.status(name)["pid"])

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(name), number)

    def wait_restarted(self, name: str, restarts: int = 1) -> None:
        def restarted() -> bool:
            status = self.status(name)
            return bool(status["restarts"] >= restarts and status["state"] == "ready")

        wait_until(restarted, 60, f"{name} restarted")

    def start_extra(self, service: str, name: str, config: Path | None = None) -> subprocess.Popen[bytes]:
        """One more process of a stage, with nothing restarted."""
        file = str(config or self.run_dir / "config.yaml")
        command = [sys.executable, "-P", "-m", f"services.{service}", "--config", file, "--name", name]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
        with self.log_file.open("ab") as log:
            self._extra.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))
        return self._extra[-1]

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of this event."""
        lines = [line for line in self.log_file.read_text(errors="replace").splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line.get("event") == event]

    def processes(self) -> list[psutil.Process]:
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def metric(self, pattern: str) -> float:
        """The value of the metric whose name and labels match the pattern."""
        text = httpx.get(f"{self.url}/metrics").text
        found = re.search(rf"^{pattern} (\S+)$", text, re.MULTILINE)
        assert found, f"no metric {pattern} in:\n{text}"
        return float(found[1])

    def post(self, path: str, body: dict[str, Any], timeout_s: float = 120) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=timeout_s)

    def generate(self, text: str | list[int], **sampling: Any) -> dict[str, Any]:
        """One native request; a list is token ids. Greedy unless told otherwise."""
        prompt = {"text": text} if isinstance(text, str) else {"input_ids": text}
        reply = self.post("/generate", prompt | {"sampling_params": {"temperature": 0} | sampling}, timeout_s=600)
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer


@contextmanager
def deployed(run_dir: Path, *arguments: str) -> Iterator[Deployment]:
    deployment = Deployment(run_dir, *arguments)
    deployment.start()
    try:
        yield deployment
    finally:
        deployment.stop()


def sse(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events of a stream of server-sent events, without the closing [DONE], which must come."""
    for line in lines:
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended without [DONE]")
