"""From a constraint to a compiled grammar in the cache, or to the reason why there is none: once for all who ask.

Knows the cache, the sandbox and the client's errors. On the event loop; what the sandbox has let through is compiled in
a thread at its side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeAlias, assert_never

from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.engine import Grammar, GrammarFailed
from services.executor.constraint.job import Answer, Broken, Done, TooComplex, Wrong
from shared import logging, wire
from shared.constraints import key_of

MAX_WAITING = 1024  # constraints that are compiled or wait for it
RETRY_S = 1.0
COMPLEX_FOR_S = 600.0  # until a constraint that was too much is tried again
MESSAGE_CHARACTERS = 1000

BUSY = wire.Error("too many constraints wait to be compiled", "overloaded", status=503, retry_after_s=RETRY_S)
BROKEN = wire.Error("the constraint could not be compiled", "internal_error", status=500)

Build: TypeAlias = Callable[[str, str], Grammar]  # of key and text


class Runs(Protocol):
    """As `sandbox.Sandbox`."""

    def warm_up(self) -> None: ...

    async def run(self, constraint: wire.Constraint) -> Answer: ...

    async def close(self) -> None: ...


class Compiler:
    """Args:
    build: makes what the sandbox has let through; called in another thread.
    """

    def __init__(self, cache: GrammarCache, sandbox: Runs, build: Build) -> None:
        self._cache = cache
        self._sandbox = sandbox
        self._build = build
        self._thread = ThreadPoolExecutor(1, "grammars")
        self._under_way: dict[str, asyncio.Task[wire.Error | None]] = {}
        self._log = logging.get()

    def warm_up(self) -> None:
        self._sandbox.warm_up()

    async def compile(self, constraint: wire.Constraint) -> wire.Error | None:
        """None once the cache has it."""
        key = key_of(constraint)
        if self._cache.get(key) is not None:
            return None
        refusal = self._cache.refusal(key)
        if refusal is not None:
            return refusal
        if key not in self._under_way:
            if len(self._under_way) >= MAX_WAITING:
                return BUSY
            self._under_way[key] = asyncio.create_task(self._compile_once(key, constraint))
        return await asyncio.shield(self._under_way[key])

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sandbox.close()
        self._thread.shutdown(wait=False)

    async def _compile_once(self, key: str, constraint: wire.Constraint) -> wire.Error | None:
        try:
            return await self._compile(key, constraint)
        except Exception as error:
            self._log.error("constraint_not_compiled", kind=constraint.kind, exc_info=error)
            return BROKEN
        finally:
            del self._under_way[key]

    async def _compile(self, key: str, constraint: wire.Constraint) -> wire.Error | None:
        match await self._sandbox.run(constraint):
            case Done(text):
                return await self._build_aside(key, text)
            case Wrong(message, path):
                return self._refuse(key, _error(message, "invalid_constraint", path))
            case TooComplex(message):
                return self._refuse(key, _error(message, "constraint_too_complex"), for_s=COMPLEX_FOR_S)
            case Broken(message):
                self._log.error("constraint_worker_broken", kind=constraint.kind, error=message)
                return BROKEN
            case unknown:
                assert_never(unknown)

    async def _build_aside(self, key: str, text: str) -> wire.Error | None:
        try:
            grammar = await asyncio.get_running_loop().run_in_executor(self._thread, self._build_here, key, text)
        except GrammarFailed as error:
            return self._refuse(key, _error(str(error), "invalid_constraint"), for_s=COMPLEX_FOR_S)
        self._cache.put(grammar)
        return None

    def _build_here(self, key: str, text: str) -> Grammar:
        """In the other thread."""
        try:
            return self._build(key, text)
        except Exception:
            raise
        except BaseException as panic:  # of a Rust library is no Exception
            raise GrammarFailed(f"the engine failed: {type(panic).__name__}") from panic

    def _refuse(self, key: str, error: wire.Error, *, for_s: float | None = None) -> wire.Error:
        self._cache.refuse(key, error, for_s=for_s)
        return error


def _error(message: str, code: str, path: tuple[str | int, ...] = ()) -> wire.Error:
    return wire.Error(message[:MESSAGE_CHARACTERS], code, ".".join(("constraint", *map(str, path))))
