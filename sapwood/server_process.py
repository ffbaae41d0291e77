"""A server as a process of our own: started, waited for, stopped. Knows its command and its log, nothing of its API.

It ends with this process, however that ends, and an interrupt at the terminal is not meant for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

import httpx

from sapwood.errors import NotStarted, ProgramError

Option: TypeAlias = str | int | float | bool | os.PathLike[str] | Sequence[str] | None

POLL_S = 0.1
PROBE_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 30.0
LAST_LINES = 15


class ServerProcess:
    """Args:
    command: starts a server that answers at `url`, and "/ready" there with 200 once it takes requests.
    log_file: gets all that it prints; a temporary one by default.
    environment: beside what is there: what nobody is to see in the list of processes.
    folder: of this server alone; removed when it has stopped.
    """

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        log_file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.url = url
        self._command = command
        self._environment = dict(environment or {})
        self._folder = folder
        self._is_temporary = log_file is None
        self.log_file = log_file or _temporary_file()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ours = True  # not in a forked child

    @property
    def is_running(self) -> bool:
        return self._is_ours and self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float) -> None:
        """Return when it takes requests. Raises NotStarted, with what it said last."""
        try:
            if _answers(self.url):
                raise NotStarted(f"something answers at {self.url} already", "")
            self._process = self._launched()
            self._wait_until_ready(self._process, time.monotonic() + timeout_s, timeout_s)
        except BaseException:
            self.stop()
            raise

    def _launched(self) -> subprocess.Popen[bytes]:
        keeper = [sys.executable, "-P", "-m", "sapwood.keeper", *self._command]
        package_parent = str(Path(__file__).resolve().parent.parent)
        places = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")]))
        os.register_at_fork(after_in_child=self._leave_to_the_parent)
        with self._log() as log:
            return subprocess.Popen(
                keeper,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment | {"PYTHONPATH": places},
                start_new_session=True,
            )

    def stop(self) -> None:
        """As a whole: no process of it is left, and nothing that is its own. May be called again."""
        if not self._is_ours:
            return
        if self._process is not None:
            self._end(self._process)
        if self._is_temporary:
            self.log_file.unlink(missing_ok=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children have lifelines of their own
            process.wait()

    def _leave_to_the_parent(self) -> None:
        """In a forked child, whose copy of the lifeline would outlast the parent's."""
        self._is_ours = False
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _log(self) -> BinaryIO:
        try:
            return self.log_file.open("ab")
        except OSError as error:
            raise ProgramError(f"log_file: {error}") from error

    def _wait_until_ready(self, process: subprocess.Popen[bytes], end_s: float, timeout_s: float) -> None:
        with httpx.Client(trust_env=False, timeout=PROBE_TIMEOUT_S) as client:
            while not _is_ready(client, self.url):
                if process.poll() is not None:
                    raise NotStarted(f"the server ended with code {process.returncode}", self._last_lines())
                if time.monotonic() > end_s:
                    raise NotStarted(f"the server takes no requests after {timeout_s:g} s", self._last_lines())
                time.sleep(POLL_S)

    def _last_lines(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line.strip()][-LAST_LINES:])


def server_command(options: Mapping[str, Option]) -> list[str]:
    """`sapwood serve` with these options by their names there: `page_size=16, disable_radix_cache=True`."""
    command = [sys.executable, "-P", "-m", "sapwood.launch_server"]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            command += [part for item in value for part in (flag, item)]
        elif value is not None and value is not False:
            command += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(client: httpx.Client, url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get(f"{url}/ready").status_code == httpx.codes.OK
    return False


def _answers(url: str) -> bool:
    with httpx.Client(trust_env=False, timeout=PROBE_TIMEOUT_S) as client:
        try:
            client.get(url)
        except httpx.ConnectError:
            return False
        except httpx.HTTPError:
            return True
    return True


def _temporary_file() -> Path:
    descriptor, path = tempfile.mkstemp(prefix="sapwood_log_", suffix=".txt")
    os.close(descriptor)
    return Path(path)
