"""What every stage's process has in common: event loop, signals, ticks, the lifeline to its supervisor, exit codes.

A process never outlives its supervisor, never limps on after an unexpected exception, and tells of progress, not of a
turning event loop: where a service's work in hand is older than the limit, it says so, and is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import uvloop
import zmq

from shared import config as configuration
from shared import logging, wire
from shared.config import Config, ConfigError
from shared.link import BoundLink, DialledLink, OnEvent, new_identity
from shared.link_keys import load_keys
from shared.log_files import log_file
from shared.stalls import Stalls
from shared.transport import PlainTcpError, Transport, ZmqTransport

EXIT_BROKEN = 70  # an invariant does not hold: start again
EXIT_CONFIG = 78  # nothing will change by starting again
EXIT_ORPHANED = 79  # the supervisor is gone

LIFELINE_VARIABLE = "SAPWOOD_LIFELINE"  # descriptor of a socket whose other end the supervisor holds
READY, ALIVE, HUNG = b"ready\n", b"alive\n", b"hung\n"
COMPILING = b"compiling\n"  # before it is ready, and for a while
ENDING = b"ending: "  # and why, to the end
LONGEST_REASON = 1000

BOUND: dict[Literal["front", "hub"], wire.Role] = {"front": "gateway", "hub": "scheduler"}  # who binds what

TICK_S = 0.2
ALIVE_S = 1.0
REFRESH_S = 3.0


class Service(Protocol):
    async def start(self) -> None:
        """Load, bind, dial; return when ready for work. Raises ConfigError for what a restart would not cure."""

    async def stop(self) -> None:
        """Finish tidily and close."""

    def tick(self) -> None:
        """Called every TICK_S: the links' ticks, timeouts."""

    async def refresh(self) -> None:
        """Called every REFRESH_S and once at start: the addresses of dialled links are resolved again."""

    def progress(self) -> wire.Progress: ...


@dataclass(frozen=True)
class Context:
    """What a service is built from. `fail(reason)` ends the process for a reason that a restart may cure.
    `compiling()` tells the supervisor what takes long at a start, from any thread.
    """

    config: Config
    name: str
    identity: str
    transport: Transport
    fail: Callable[[str], None]
    compiling: Callable[[], None] = lambda: None

    def bind(
        self,
        endpoint: Literal["front_bind", "hub_bind"],
        accepts: dict[wire.Role, Any],
        on_event: OnEvent,
        *,
        progress: Callable[[], wire.Progress],
        clock: Callable[[], float] = time.monotonic,
    ) -> BoundLink:
        """The bound side of a link. Raises what the transport raises when the address is taken."""
        return BoundLink(
            self.transport,
            self.config.endpoint(endpoint),
            accepts,
            on_event,
            identity=self.identity,
            progress=progress,
            silence_s=self.config.links.silence_s,
            clock=clock,
        )

    def dial(
        self,
        endpoint: Literal["front", "hub"],
        role: wire.Role,
        accepts: Any,
        on_event: OnEvent,
        *,
        progress: Callable[[], wire.Progress],
        executor: wire.ExecutorInfo | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> DialledLink:
        """A link to a bound side, under this process's identity. One that refuses this process ends it."""
        return DialledLink(
            self.transport,
            self.config.endpoint(endpoint),
            accepts,
            on_event,
            to=BOUND[endpoint],
            identity=self.identity,
            hello=lambda: wire.Hello(role, wire.PROTOCOL, self.name, executor),
            progress=progress,
            on_refused=lambda reason: self.fail(f"refused by the {endpoint}: {reason}"),
            silence_s=self.config.links.silence_s,
            clock=clock,
        )


Build = Callable[[Context], Service]


def main(role: wire.Role, build: Build) -> None:
    """Run one service in this process until a signal ends it; exits with one of the codes above."""
    parser = argparse.ArgumentParser(prog=f"python -m services.{role}")
    parser.add_argument("--config", help="the resolved configuration")
    parser.add_argument("--name", default=role, help="what this process is called in logs")
    arguments = parser.parse_args()
    lifeline = Lifeline.from_environment()
    try:
        config = configuration.load(arguments.config)  # resolved: the launcher has read the environment
        logging.configure(
            arguments.name,
            level=config.logging.level,
            form=config.logging.format,
            file=log_file(config.logging, config.run_dir, arguments.name),
        )
        code = uvloop.run(_Runner(config, role, arguments.name, build, lifeline).run())
    except (ConfigError, PlainTcpError) as error:
        logging.get().error("cannot_start", reason=str(error))
        lifeline.say_why(str(error))
        code = EXIT_CONFIG
    except Exception as error:
        logging.get().exception("broken")
        lifeline.say_why(f"{type(error).__name__}: {error}")
        code = EXIT_BROKEN
    logging.drain()
    os._exit(code)  # a step thread that hangs must not keep the process


class Lifeline:
    """The child's end of the socket to its supervisor; without a supervisor it does nothing."""

    def __init__(self, end: socket.socket | None) -> None:
        self._end = end

    @classmethod
    def from_environment(cls) -> Lifeline:
        descriptor = os.environ.pop(LIFELINE_VARIABLE, None)
        if descriptor is None:
            return cls(None)
        end = socket.socket(fileno=int(descriptor))
        die_with_parent()
        threading.Thread(target=_exit_at_end_of, args=(end,), name="lifeline", daemon=True).start()
        return cls(end)

    def say(self, line: bytes) -> None:
        if self._end is not None:
            with contextlib.suppress(OSError):  # a supervisor that does not read, or is gone: see _exit_at_end_of
                self._end.send(line, socket.MSG_DONTWAIT)

    def say_why(self, reason: str) -> None:
        """The last that is said: the process ends."""
        self.say(ENDING + reason[:LONGEST_REASON].encode(errors="replace"))


def _exit_at_end_of(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while end.recv(64):
            pass
    os._exit(EXIT_ORPHANED)


def die_with_parent() -> None:
    """On Linux the kernel does it too, also for a process that is stopped or holds its interpreter."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


class _Runner:
    def __init__(self, config: Config, role: wire.Role, name: str, build: Build, lifeline: Lifeline) -> None:
        self._config = config
        self._role: wire.Role = role
        self._name = name
        self._build = build
        self._lifeline = lifeline
        self._log = logging.get()
        self._stopping = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_exception)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        transport = self._transport()
        service = self._build(Context(self._config, self._name, new_identity(), transport, self._fail, self._compiling))
        try:
            if await self._started(service):
                await self._serve(service)
        except zmq.ZMQError as error:
            raise ConfigError(f"links: {error.strerror}") from error
        return self._code

    def _transport(self) -> ZmqTransport:
        links = self._config.links
        keys = None if links.keys_dir is None else load_keys(Path(links.keys_dir).expanduser(), self._role)
        return ZmqTransport(keys=keys, allow_plain_tcp=links.allow_plain_tcp)

    def _on_signal(self, number: int) -> None:
        """The first one stops the service tidily, the second one ends it."""
        if self._stopping.is_set():
            self._end(128 + number)
        self._stopping.set()

    async def _started(self, service: Service) -> bool:
        """False if a signal came first: what has not started has nothing to finish."""
        starting = asyncio.ensure_future(self._start(service))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        stopping.cancel()
        await starting
        return True

    async def _start(self, service: Service) -> None:
        await service.start()
        await service.refresh()

    async def _serve(self, service: Service) -> None:
        self._lifeline.say(READY)
        self._log.info("ready", pid=os.getpid())
        working = [asyncio.create_task(self._guarded(work, service)) for work in (self._tick, self._refresh)]
        await self._stopping.wait()
        self._log.info("stopping")
        await service.stop()
        for task in working:
            task.cancel()

    async def _tick(self, service: Service) -> None:
        stalls, alive_s = Stalls(TICK_S), time.monotonic()
        while True:
            service.tick()
            now_s, work_age_s = time.monotonic(), service.progress().step_age_s
            stalls.tick(now_s, work_age_s)
            if now_s - alive_s >= ALIVE_S:
                alive_s = now_s
                self._lifeline.say(ALIVE if work_age_s < self._config.supervisor.hang_timeout_s else HUNG)
            await asyncio.sleep(TICK_S)

    async def _refresh(self, service: Service) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            await service.refresh()

    async def _guarded(self, work: Callable[[Service], Coroutine[Any, Any, None]], service: Service) -> None:
        try:
            await work(service)
        except asyncio.CancelledError:
            raise
        except Exception:
            self._log.exception("broken")
            self._end(EXIT_BROKEN)

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._log.error("broken", reason=context.get("message"), exc_info=context.get("exception"))
        self._end(EXIT_BROKEN)

    def _compiling(self) -> None:
        self._lifeline.say(COMPILING)

    def _fail(self, reason: str) -> None:
        self._log.error("failed", reason=reason)
        self._lifeline.say_why(reason)
        self._end(EXIT_BROKEN)

    def _end(self, code: int) -> None:
        """At once: who cannot trust its own state has nothing to finish."""
        logging.drain()
        os._exit(code)
