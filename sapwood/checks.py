"""Where a type's own checks and measures run: code of the user's that a generation ends with, in a thread of its own.

There it is in no program. It may ask a server. It cannot wait for a program's values: they may be waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from sapwood.errors import ProgramError

T = TypeVar("T")

_is_checking: ContextVar[bool] = ContextVar("sapwood_is_checking", default=False)


async def checked(check: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, _run, check)


def refuse_to_wait(what: object) -> None:
    """Raises ProgramError in a check. For whoever is about to wait for a program."""
    if _is_checking.get():
        raise ProgramError(f"{what} is not there yet: a type's own checks, and measures, cannot wait for it")


def _run(check: Callable[[], T]) -> T:
    token = _is_checking.set(True)
    try:
        return check()
    finally:
        _is_checking.reset(token)
