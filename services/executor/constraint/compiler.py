"""From a constraint to a compiled grammar in the cache, or to the reason why there is none: once for all who ask.

Knows the line of those that wait, the cache, the sandbox and the client's errors. On the event loop; what the sandbox
has let through is compiled in a thread at its side, and need not go there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.engine import Grammar, GrammarFailed
from services.executor.constraint.job import Answer, Broken, Done, Interrupted, TooComplex, Wrong
from services.executor.constraint.line import Line
from services.executor.constraint.texts import Texts
from shared import logging, wire
from shared.constraints import key_of

MAX_WAITING = 1024  # constraints that are compiled or wait for it
MAX_WAITING_OF_TENANT = 256
TEXT_CHARACTERS = 16 * 1024 * 1024  # of texts that are kept
RETRY_S = 1.0
COMPLEX_FOR_S = 600.0  # until a constraint that was too much is tried again,
INTERRUPTED_FOR_S = 10.0  # and one where the machine may have been at fault
MESSAGE_CHARACTERS = 1000

BUSY = wire.Error("too many constraints wait to be compiled", "overloaded", status=503, retry_after_s=RETRY_S)
TOO_MANY = wire.Error(
    "too many of your constraints wait to be compiled", "overloaded", status=429, retry_after_s=RETRY_S
)
BROKEN = wire.Error("the constraint could not be compiled", "internal_error", status=500)

Build: TypeAlias = Callable[[str, str], Grammar]  # of key and text


class Runs(Protocol):
    """As `sandbox.Sandbox`."""

    def warm_up(self) -> None: ...

    async def run(self, constraint: wire.Constraint) -> Answer: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Job:
    """One constraint, for all who ask for it."""

    constraint: wire.Constraint
    answer: asyncio.Future[wire.Error | None]
    is_under_way: bool = False


class Compiler:
    """Args:
    build: makes what the sandbox has let through; called in another thread.
    """

    def __init__(self, cache: GrammarCache, sandbox: Runs, build: Build) -> None:
        self._cache = cache
        self._sandbox = sandbox
        self._build = build
        self._thread = ThreadPoolExecutor(1, "grammars")
        self._jobs: dict[str, _Job] = {}
        self._line = Line()
        self._texts = Texts(TEXT_CHARACTERS)
        self._work: asyncio.Task[None] | None = None
        self._log = logging.get()

    def warm_up(self) -> None:
        self._sandbox.warm_up()

    async def compile(self, constraint: wire.Constraint, tenant: str = "") -> wire.Error | None:
        """None once the cache has it."""
        key = key_of(constraint)
        if self._cache.get(key) is not None:
            return None
        error = self._cache.refusal(key) or self._stand_in_line(key, constraint, tenant)
        return error or await asyncio.shield(self._jobs[key].answer)

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        for job in self._jobs.values():
            job.answer.cancel()
        await self._sandbox.close()
        self._thread.shutdown(wait=False)

    # --- the line ----------------------------------------------------------------------------------------------------

    def _stand_in_line(self, key: str, constraint: wire.Constraint, tenant: str) -> wire.Error | None:
        """Why it cannot wait; None if it does."""
        if key not in self._jobs:
            if self._line.waiting(tenant) >= MAX_WAITING_OF_TENANT:
                return TOO_MANY
            if len(self._jobs) >= MAX_WAITING:
                return BUSY
            self._jobs[key] = _Job(constraint, asyncio.get_running_loop().create_future())
        if not self._jobs[key].is_under_way:
            self._line.add(tenant, key, len(constraint.source))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._work_off())
        return None

    async def _work_off(self) -> None:
        """One after the other, as long as there are any."""
        while (key := self._line.take()) is not None:
            job = self._jobs[key]
            job.is_under_way = True
            error = await self._compile_safely(key, job.constraint)
            del self._jobs[key]
            job.answer.set_result(error)

    # --- one of them -------------------------------------------------------------------------------------------------

    async def _compile_safely(self, key: str, constraint: wire.Constraint) -> wire.Error | None:
        try:
            return await self._compile(key, constraint)
        except Exception as error:
            self._log.error("constraint_not_compiled", kind=constraint.kind, exc_info=error)
            return BROKEN

    async def _compile(self, key: str, constraint: wire.Constraint) -> wire.Error | None:
        text = self._texts.get(key)
        answer = await self._sandbox.run(constraint) if text is None else Done(text)
        match answer:
            case Done(text):
                self._texts.put(key, text)
                return await self._build_aside(key, text)
            case Wrong(message, path):
                return self._refuse(key, _error(message, "invalid_constraint", path))
            case TooComplex(message):
                return self._refuse(key, _error(message, "constraint_too_complex"), for_s=COMPLEX_FOR_S)
            case Interrupted(message):
                return self._refuse(key, _error(message, "constraint_too_complex"), for_s=INTERRUPTED_FOR_S)
            case Broken(message):
                self._log.error("constraint_worker_broken", kind=constraint.kind, error=message)
                return BROKEN
            case unknown:
                assert_never(unknown)

    async def _build_aside(self, key: str, text: str) -> wire.Error | None:
        try:
            grammar = await asyncio.get_running_loop().run_in_executor(self._thread, self._build, key, text)
        except GrammarFailed as error:
            self._texts.forget(key)
            return self._refuse(key, _error(str(error), "invalid_constraint"), for_s=COMPLEX_FOR_S)
        self._cache.put(grammar)
        return None

    def _refuse(self, key: str, error: wire.Error, *, for_s: float | None = None) -> wire.Error:
        self._cache.refuse(key, error, for_s=for_s)
        return error


def _error(message: str, code: str, path: tuple[str | int, ...] = ()) -> wire.Error:
    return wire.Error(message[:MESSAGE_CHARACTERS], code, ".".join(("constraint", *map(str, path))))
