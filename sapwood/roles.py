"""Who says what: `user("…")` is a message to attach, `with user():` a block whose text and generations are one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from sapwood.current import current_state, required_state, running
from sapwood.errors import ProgramError
from sapwood.expressions import Expression, Joinable, atoms_of
from sapwood.transcript import ASSISTANT, Opened

if TYPE_CHECKING:
    from sapwood.state import State


class Role(Joinable):
    """Args:
    content: of a whole message; None for a block.
    tool_call_id: of a tool's message: which call it answers.
    """

    def __init__(self, name: str, content: object = None, tool_call_id: str | None = None) -> None:
        self.name = name
        self.opening = Opened(name, tool_call_id)
        self.atoms = None if content is None else tuple(atoms_of(content))
        self.state: State | None = None  # that it writes to; None: the one of the program that is running
        self.is_attached = False
        self._blocks: list[AbstractContextManager[State]] = []  # that are open: a role may be used again

    def with_atoms(self, atoms: tuple[str | Joinable, ...]) -> Role:
        return Role(self.name, Expression(atoms), self.opening.tool_call_id)

    def __repr__(self) -> str:
        return f"{self.name}({'' if self.atoms is None else ' + '.join(map(repr, self.atoms))})"

    def __enter__(self) -> State:
        if self.atoms is not None:
            raise ProgramError(f"{self!r} is a whole message: a block begins without text, with {self.name}(): …")
        block = _block(self.opening, self.state or required_state(f"with {self.name}()"))
        self._blocks.append(block)
        return block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.pop().__exit__(kind, error, trace)


@contextmanager
def _block(opening: Opened, state: State) -> Iterator[State]:
    """Left by an error, it keeps what the program has written in it, and the program goes on as before it."""
    writer = state._writer
    outside = writer.enter(opening)
    try:
        with running(state):
            yield state
            writer.settle()
        writer.leave(opening.role)
    except BaseException as error:
        try:
            if isinstance(error, Exception):  # after an interrupt nothing is begun
                writer.settle()
        finally:
            writer.unwind(outside)
        raise


class RoleMark(Joinable):
    """The beginning or the end of a block, where `with` does not fit."""

    def __init__(self, name: str, *, begins: bool) -> None:
        self.name = name
        self.begins = begins


def system(content: object = None) -> Role:
    return _made(Role("system", content))


def user(content: object = None) -> Role:
    return _made(Role("user", content))


def assistant(content: object = None) -> Role:
    return _made(Role(ASSISTANT, content))


def role(name: str, content: object = None, *, tool_call_id: str | None = None) -> Role:
    """Any other that the model's chat template knows. A tool's message names the call that it answers."""
    return _made(Role(name, content, tool_call_id))


def system_begin() -> RoleMark:
    return RoleMark("system", begins=True)


def system_end() -> RoleMark:
    return RoleMark("system", begins=False)


def user_begin() -> RoleMark:
    return RoleMark("user", begins=True)


def user_end() -> RoleMark:
    return RoleMark("user", begins=False)


def assistant_begin() -> RoleMark:
    return RoleMark(ASSISTANT, begins=True)


def assistant_end() -> RoleMark:
    return RoleMark(ASSISTANT, begins=False)


def _made(role: Role) -> Role:
    """A message that a program makes is one that it attaches: the end of the run asks for those that it has not."""
    state = current_state()
    if state is not None and role.atoms is not None:
        state._writer.session.messages.append(role)
    return role
