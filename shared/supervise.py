"""The watchdog parent: starts processes, kills -9 what shows no progress, restarts what dies, stops all in order.

Knows argv, lifelines and exit codes. Does not know what the processes do. `sapwood serve` runs one of these over all
stages of a machine; in a container it is process 1 over one stage.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shared import logging
from shared.config import SupervisorConfig
from shared.service import COMPILING, ENDING, EXIT_BROKEN, EXIT_CONFIG, HUNG, LIFELINE_VARIABLE, READY

BACK_OFF_FIRST_S = 0.2
BACK_OFF_LAST_S = 10.0
BACK_OFF_LAST_READY_S = 1.0  # of one that can start: its work may have crashed it, and others wait for it
STABLE_S = 30.0  # a process that ran for so long starts its back-off anew
MOST_FALSE_STARTS = 5  # of a process that was never ready, before all is given up

LAST_WORDS_S = 1.0  # to read them, of a process that has ended
LONGEST_WORDS = 8192  # bytes, read at once

State = Literal["starting", "compiling", "ready", "waiting", "stopped"]


@dataclass(frozen=True)
class ProcessSpec:
    """What to run. Processes stop in order of `stop_rank`, those of one rank together; some read files at SIGHUP."""

    name: str
    argv: tuple[str, ...]
    stop_rank: int = 0
    reads_at_hangup: bool = False


@dataclass
class _Child:
    spec: ProcessSpec
    state: State = "starting"
    process: asyncio.subprocess.Process | None = None
    restarts: int = 0
    was_ready: bool = False
    has_to_read: bool = False  # once it is ready: it may have read just before
    reason: str | None = None  # that it ended last, as far as it is known
    keeper: asyncio.Task[None] | None = None


class GivenUp(NamedTuple):
    """A process that ends in a way that a restart would not cure."""

    process: str
    code: int
    reason: str


class BackOff:
    """How long to wait before a process is started again: twice as long each time, up to a limit."""

    def __init__(self) -> None:
        self._next_s = BACK_OFF_FIRST_S

    def after(self, ran_s: float, *, was_ready: bool) -> float:
        """It has run for so long."""
        if ran_s > STABLE_S:
            self._next_s = BACK_OFF_FIRST_S
        pause_s = min(self._next_s, BACK_OFF_LAST_READY_S if was_ready else BACK_OFF_LAST_S)
        self._next_s = 2 * pause_s
        return pause_s


class Supervisor:
    """Args:
    status_dir: one small JSON file a process lies here, touched while it makes progress (for health checks).
    """

    def __init__(self, specs: list[ProcessSpec], config: SupervisorConfig, status_dir: Path) -> None:
        self._children = [_Child(spec) for spec in specs]
        self._config = config
        self._status_dir = status_dir
        self._log = logging.get()
        self._stopping = False
        self._fatal: asyncio.Future[GivenUp] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Start all processes; they are kept running from now on."""
        self._status_dir.mkdir(parents=True, exist_ok=True)
        for file in self._status_dir.glob("*.json"):  # of an earlier run
            file.unlink()
        for child in self._children:
            child.keeper = asyncio.create_task(self._keep(child))

    async def fatal(self) -> GivenUp:
        """Wait until there is one."""
        return await asyncio.shield(self._fatal)

    def all_ready(self) -> bool:
        return all(child.state == "ready" for child in self._children)

    async def stop(self) -> None:
        """SIGTERM in order of stop_rank, kill -9 for what is still there at the timeout."""
        self._stopping = True
        for rank in sorted({child.spec.stop_rank for child in self._children}):
            group = [child for child in self._children if child.spec.stop_rank == rank]
            await asyncio.gather(*(self._stop_child(child) for child in group))

    def hang_up(self) -> None:
        """SIGHUP for those that read their files anew at it."""
        for child in self._children:
            if child.spec.reads_at_hangup:
                child.has_to_read = True
                self._let_read(child)

    def end_now(self) -> None:
        """Kill -9 for all that is still there: somebody will not wait for them to stop."""
        self._stopping = True
        for child in self._children:
            self._kill(child, "told twice to stop")

    async def _keep(self, child: _Child) -> None:
        back_off = BackOff()
        while True:
            started_s = time.monotonic()
            code = None
            try:
                code = await self._run_once(child)
            except OSError as error:
                child.reason = str(error)
                self._log.error("cannot_start", process=child.spec.name, reason=child.reason)
            if self._stopping:
                return
            tell = self._log.info if code == 0 else self._log.warning
            tell("process_ended", process=child.spec.name, code=code)
            if not child.was_ready and (code == EXIT_CONFIG or child.restarts + 1 >= MOST_FALSE_STARTS):
                self._give_up(child, code)
                return  # what has worked before is tried for ever
            pause_s = back_off.after(time.monotonic() - started_s, was_ready=child.state == "ready")
            self._note(child, "waiting", pause_s)
            await asyncio.sleep(pause_s)
            child.restarts += 1

    def _give_up(self, child: _Child, code: int | None) -> None:
        name, reason = child.spec.name, child.reason or f"it ends with code {code}; its own lines may say why"
        self._log.error("never_ready", process=name, starts=child.restarts + 1, reason=reason)
        if not self._fatal.done():
            self._fatal.set_result(GivenUp(name, EXIT_CONFIG if code == EXIT_CONFIG else EXIT_BROKEN, reason))

    async def _run_once(self, child: _Child) -> int:
        """The exit code. Raises OSError if the process cannot be started for lack of memory or descriptors."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            child.process = await self._spawn(child.spec, theirs)
            theirs.close()
            child.reason = None
            self._note(child, "starting")
            watch = asyncio.create_task(self._watch(child, ours))
            try:
                code = await child.process.wait()
                await asyncio.wait({watch}, timeout=LAST_WORDS_S)
                return code
            finally:
                watch.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch

    async def _spawn(self, spec: ProcessSpec, lifeline: socket.socket) -> asyncio.subprocess.Process:
        environment = os.environ | {LIFELINE_VARIABLE: str(lifeline.fileno())}
        return await asyncio.create_subprocess_exec(
            *spec.argv, env=environment, pass_fds=[lifeline.fileno()], start_new_session=True
        )

    async def _watch(self, child: _Child, lifeline: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        limit_s = self._config.start_timeout_s
        while True:
            try:
                said = await asyncio.wait_for(loop.sock_recv(lifeline, LONGEST_WORDS), limit_s)
            except TimeoutError:
                self._kill(child, f"no progress for {limit_s:g} s")
                return
            said, _, reason = said.partition(ENDING)
            if reason:
                child.reason = reason.decode(errors="replace")
            if not said:
                return
            if said.startswith(COMPILING):
                self._note(child, "compiling")
            if HUNG in said:
                self._kill(child, f"its work stands still for {self._config.hang_timeout_s:g} s")
                return
            if READY in said:
                limit_s = self._config.hang_timeout_s
                self._log.info("process_ready", process=child.spec.name, restarts=child.restarts)
                child.was_ready = True
                self._note(child, "ready")
                self._let_read(child)
            elif child.state == "ready":
                with contextlib.suppress(OSError):  # a full disk
                    self._status_file(child).touch()

    def _let_read(self, child: _Child) -> None:
        if child.has_to_read and child.state == "ready" and child.process is not None:
            child.has_to_read = False
            with contextlib.suppress(ProcessLookupError):  # the next one reads them at its start
                child.process.send_signal(signal.SIGHUP)

    def _kill(self, child: _Child, reason: str) -> None:
        if child.process is not None and child.process.returncode is None:
            child.reason = reason
            self._log.error("process_killed", process=child.spec.name, reason=reason)
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(signal.SIGKILL)

    async def _stop_child(self, child: _Child) -> None:
        process = child.process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)  # one that is stopped would not hear it
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._config.stop_timeout_s)
            self._kill_if_running(child)
            await process.wait()
        if child.keeper is not None:
            child.keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await child.keeper
        self._note(child, "stopped")

    def _kill_if_running(self, child: _Child) -> None:
        if child.process is not None and child.process.returncode is None:
            self._kill(child, f"did not stop in {self._config.stop_timeout_s:g} s")

    def _note(self, child: _Child, state: State, pause_s: float | None = None) -> None:
        """`pause_s`: until it is started again."""
        child.state = state
        status: dict[str, Any] = {
            "name": child.spec.name,
            "state": state,
            "pid": child.process.pid if child.process else None,
            "restarts": child.restarts,
            "pause_s": pause_s,
            "reads_at_hangup": child.spec.reads_at_hangup,
        }
        path = self._status_file(child)
        part = path.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk: the file is only a report
            part.write_text(json.dumps(status))
            part.replace(path)

    def _status_file(self, child: _Child) -> Path:
        return self._status_dir / f"{child.spec.name}.json"
