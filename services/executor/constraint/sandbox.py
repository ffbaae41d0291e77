"""The parent's side of the process that takes strangers' sources: keeps one warm, kills it in time, starts the next.

Knows its life, not what it does. On the event loop; one job at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

import msgspec

from services.executor.constraint.job import (
    LENGTH,
    Answer,
    Broken,
    Done,
    Interrupted,
    Job,
    Ready,
    TooComplex,
    decode_answer,
    framed,
    out_of_memory,
)
from shared import logging, wire
from shared.config import ConstraintsConfig

START_S = 30.0  # for a process to be ready
WALL_S = 5.0  # a job may take so long,
WALL_FACTOR = 10.0  # and so many times its CPU time, since others use the machine
DYING_S = 5.0  # a process that has said its last may take so long to be gone
TRIES = 2  # where somebody else has killed the process
MAX_GROWTH_BYTES = 128 * 1024 * 1024  # of a process since it was ready, before it is replaced


class SandboxDown(Exception):
    """The process cannot be started: nothing is known of the source."""


def worker_command(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "services.executor.constraint.worker", str(folder))


class Sandbox:
    """Args:
    command: starts a worker, see `worker`.
    """

    def __init__(self, command: Sequence[str], caps: ConstraintsConfig) -> None:
        self._command = command
        self._caps = caps
        self._lock = asyncio.Lock()  # who holds it talks to the process
        self._process: Process | None = None
        self._ready_bytes = 0  # resident when it was ready
        self._warming: asyncio.Task[None] | None = None
        self._log = logging.get()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def warm_up(self) -> None:
        """Have a process ready before somebody waits for it."""
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._warm_up())

    async def run(self, constraint: wire.Constraint) -> Answer:
        """What the worker says, or why it does not any more. Raises SandboxDown."""
        job = framed(Job(constraint, self._caps))
        async with self._lock:
            for _ in range(TRIES):
                answer = await self._ask(await self._ready(), job)
                if answer is not None:
                    break
        if self._process is None:
            self.warm_up()
        return answer or Interrupted("the constraint is too complex: the process that compiles it was killed twice")

    async def close(self) -> None:
        """No job is under way."""
        if self._warming is not None:
            self._warming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._warming
        await self._end()

    # --- with the lock -----------------------------------------------------------------------------------------------

    async def _warm_up(self) -> None:
        async with self._lock:
            try:
                await self._ready()
            except SandboxDown as error:
                self._log.error("constraint_worker_down", error=str(error))

    async def _ready(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self._end()
        try:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)
            async with asyncio.timeout(START_S):
                found = await _read(self._process)
        except (OSError, EOFError, msgspec.MsgspecError) as error:  # a timeout is an OSError
            await self._end()
            raise SandboxDown(f"{type(error).__name__}: {error}") from error
        self._ready_bytes = found.resident_bytes if isinstance(found, Ready) else 0
        return self._process

    async def _ask(self, process: Process, job: bytes) -> Answer | None:
        """None if somebody else has killed the process: that says nothing of the job."""
        limit_s = WALL_S + WALL_FACTOR * self._caps.compile_cpu_s
        try:
            async with asyncio.timeout(limit_s):
                answer = await _exchange(process, job)
        except TimeoutError:
            await self._end()
            return Interrupted(f"the constraint is too complex: compiling it takes over {limit_s:g} s")
        except (ConnectionError, EOFError):
            return self._verdict(await self._end(grace_s=DYING_S))
        except BaseException:
            await self._end()  # what it would say is the answer to nobody's question
            raise
        if isinstance(answer, Done) and answer.resident_bytes > self._ready_bytes + MAX_GROWTH_BYTES:
            await self._end()
        return answer

    def _verdict(self, code: int) -> Answer | None:
        """On a job, from how the process has ended."""
        self._log.warning("constraint_worker_ended", code=code)
        match -code:
            case signal.SIGKILL:
                return None
            case signal.SIGPROF:
                limit = f"{self._caps.compile_cpu_s:g} s of CPU time (constraints.compile_cpu_s)"
                return TooComplex(f"the constraint is too complex: to compile and try it takes over {limit}")
            case signal.SIGABRT:
                return out_of_memory(self._caps)
            case _:
                return TooComplex("the constraint is too complex: compiling it fails")

    async def _end(self, *, grace_s: float = 0.0) -> int:
        """Have no process, by force if it takes longer. The exit code of the one that was there."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(process.wait(), grace_s)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # process.kill() would take the exit code from asyncio
        return await process.wait()


async def _exchange(process: Process, job: bytes) -> Answer:
    assert process.stdin is not None
    process.stdin.write(job)
    await process.stdin.drain()
    answer = await _read(process)
    return Broken("an answer to no question") if isinstance(answer, Ready) else answer


async def _read(process: Process) -> Ready | Answer:
    """Raises EOFError if the process has ended."""
    assert process.stdout is not None
    (count,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
    return decode_answer(await process.stdout.readexactly(count))
