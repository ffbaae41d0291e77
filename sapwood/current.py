"""Which program is running here: plain functions, roles and bare generations find their state by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sapwood.errors import ProgramError

if TYPE_CHECKING:
    from sapwood.state import State

_STATE: ContextVar[State | None] = ContextVar("sapwood_state", default=None)


def current_state() -> State | None:
    return _STATE.get()


def required_state(what: str) -> State:
    """Raises ProgramError outside a program."""
    state = _STATE.get()
    if state is None:
        raise ProgramError(f"{what} belongs in a program: a function that is run")
    return state


@contextlib.contextmanager
def running(state: State) -> Iterator[None]:
    token = _STATE.set(state)
    try:
        yield
    finally:
        _STATE.reset(token)
