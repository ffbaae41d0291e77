"""The threads that compute a step together: one compiled function, run by all of them at once.

Knows threads and how they wait for each other. Does not know what they compute.

Between steps the members sleep. Within one they meet at barriers, some hundred times, and take their work item by
item from a shared counter: who is held up by another process on its core takes less. Who waits spins for a little
while, and then offers its core to others at every turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.vector import compiled, fetch_add, shared_get, shared_put
from shared.invariant import BrokenInvariant

LINE = 64  # bytes that processors move between them as one
SPINS = 2000  # turns of waiting, some 10 ns each, before a core is offered


class Team:
    """Args:
    threads: with the one that calls `run`.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._words = np.zeros(4 * LINE // 8, np.int64)
        self._sync = -(-self._words.ctypes.data // LINE) * LINE
        self._job: tuple[Callable[..., None], tuple[Any, ...]] | None = None
        self._runs = False
        self._starts = [threading.Semaphore(0) for _ in range(threads - 1)]
        self._ends = threading.Semaphore(0)
        for number, start in enumerate(self._starts, 1):
            threading.Thread(target=self._serve, args=(number, start), name=f"team-{number}", daemon=True).start()

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call `function(member, threads, sync, *arguments)` in all threads, and wait for all.

        It is compiled without the GIL, and its members call `meet` equally often.
        """
        if self._runs:
            raise BrokenInvariant("a team's members are still at work, since one of them has failed")
        _compile(function, 0, self.threads, self._sync, *arguments)
        self._job, self._runs = (function, arguments), True
        for start in self._starts:
            start.release()
        function(0, self.threads, self._sync, *arguments)
        for _ in self._starts:
            self._ends.acquire()
        self._runs = False

    def close(self) -> None:
        """End the threads."""
        self._job = None
        for start in self._starts:
            start.release()

    def _serve(self, number: int, start: threading.Semaphore) -> None:
        while True:
            start.acquire()
            if self._job is None:
                return
            function, arguments = self._job
            function(number, self.threads, self._sync, *arguments)
            self._ends.release()


def _compile(function: Any, *arguments: Any) -> None:
    """Before anybody starts: a member that failed in it would leave the others waiting."""
    if not function.signatures:
        with suppress(OSError):  # it is compiled, and could not be kept on disk
            function.compile(tuple(typeof(argument) for argument in arguments))


@intrinsic
def _offer_core(typing: Any) -> Any:
    """Let another thread run here, if one wants to (POSIX sched_yield)."""

    def make(context: Any, builder: Any, _signature: Any, _args: Any) -> ir.Value:
        function = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), make


@compiled
def take(sync: int) -> int:
    """The next work item since the last meeting: 0, 1, 2 … over all members."""
    return fetch_add(sync + 2 * LINE, 1)


@compiled
def meet(sync: int, threads: int) -> None:
    """Wait until all members are here; then work items are counted from 0 again."""
    if threads == 1:
        shared_put(sync + 2 * LINE, 0)
        return
    meeting = shared_get(sync + LINE)
    if fetch_add(sync, 1) == threads - 1:
        shared_put(sync, 0)
        shared_put(sync + 2 * LINE, 0)
        shared_put(sync + LINE, meeting + 1)
        return
    turns = 0
    while shared_get(sync + LINE) == meeting:
        turns += 1
        if turns > SPINS:
            _offer_core()
