"""Which program is running here: plain functions, roles and bare generations find their state by it, and outside calls
the hosts that its author has listed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sapwood.errors import ProgramError

if TYPE_CHECKING:
    from sapwood.state import State

_STATE: ContextVar[State | None] = ContextVar("sapwood_state", default=None)
_API_HOSTS: ContextVar[tuple[str, ...]] = ContextVar("sapwood_api_hosts", default=())


def current_api_hosts() -> tuple[str, ...]:
    return _API_HOSTS.get()


@contextlib.contextmanager
def allowing(api_hosts: tuple[str, ...]) -> Iterator[None]:
    """Outside calls to these, and no others."""
    token = _API_HOSTS.set(api_hosts)
    try:
        yield
    finally:
        _API_HOSTS.reset(token)


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
