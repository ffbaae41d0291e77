"""The growing text of one program, as the program and whoever ran it see it. What attaching does is in `writer`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import msgspec

from sapwood.aside import aside
from sapwood.backends.protocol import Generation
from sapwood.checks import refuse_to_wait
from sapwood.current import current_state, running
from sapwood.deferred import Deferred, Outcome, Work
from sapwood.errors import ProgramError
from sapwood.fork import Forks
from sapwood.roles import Role
from sapwood.roles import assistant as assistant_role
from sapwood.roles import system as system_role
from sapwood.roles import user as user_role
from sapwood.session import Session
from sapwood.transcript import has_roles, messages_of, pieces_of, text_of
from sapwood.values import Value
from sapwood.writer import Named, Writer, flat


class State:
    """`s += …` attaches, `s["name"]` reads a value and waits for it. Values and errors come where they are read.

    Within `with s.copy() as branch:` bare generations and roles are the branch's, also in a thread that the program has
    started.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._entered: list[AbstractContextManager[None]] = []

    @classmethod
    def new(cls, session: Session) -> State:
        return cls(Writer(session))

    def __iadd__(self, other: object) -> Self:
        if not self._writer.session.is_over and current_state() is None:
            raise ProgramError("this thread runs no program: what it generates is nobody's. Write within `with state:`")
        self._writer.attach(other)
        return self

    def __enter__(self) -> Self:
        self._entered.append(running(self))
        self._entered[-1].__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)
        if error is None or isinstance(error, Exception):  # after an interrupt nothing is begun
            self._writer.settle()

    def __getitem__(self, name: str) -> Any:
        """Of a name that forks gave, a list of theirs."""
        return self._value_of(self._named(name))

    def __contains__(self, name: object) -> bool:
        self._catch_up()
        return name in self._writer.names

    @property
    def result(self) -> Any:
        """What the program returned."""
        return self._writer.session.result

    def generation(self, name: str) -> Generation:
        """What the backend said of a generation: token counts, log-probabilities, why it ended."""
        generations = self.generations(name)
        if not generations:
            raise ProgramError(f"{name} was not generated")
        return generations[0]

    def generations(self, name: str) -> tuple[Generation, ...]:
        """All samples of it."""
        outcomes = [deferred.outcome() for deferred in flat(self._named(name))]
        return tuple(generation for outcome in outcomes for generation in outcome.generations)

    def scores(self, name: str) -> dict[str, tuple[float, ...]]:
        """Of a selection, the log-probability of each token of each choice."""
        outcomes = [deferred.outcome() for deferred in flat(self._named(name))]
        return {score.choice: score.logprobs for outcome in outcomes for score in outcome.scores}

    def text(self) -> str:
        """All of it. Of a chat program, a line for each message that begins with its role."""
        self._catch_up()
        return text_of(self._writer.parts)

    def messages(self) -> list[dict[str, str]]:
        """Of a text program there are none."""
        self._catch_up()
        found = messages_of(self._writer.parts) if has_roles(self._writer.parts) else []
        return [msgspec.to_builtins(message) for message in found]

    def fork(self, count: int = 1) -> Forks:
        """So many states that go on from here, each by itself."""
        return Forks(self, [State(self._writer.fork()) for _ in range(count)])

    def copy(self) -> State:
        return State(self._writer.fork())

    def system(self, content: object = None) -> Role:
        """A block of this state, or with content a message that is attached as a `gen` is: here, if nothing else is
        done with it."""
        return self._bound(system_role(content))

    def user(self, content: object = None) -> Role:
        return self._bound(user_role(content))

    def assistant(self, content: object = None) -> Role:
        return self._bound(assistant_role(content))

    def error(self) -> BaseException | None:
        """What went wrong first, if anything did. Waits for all that has been begun.

        Within the program, what went wrong in this state alone; it is not raised again at the end.
        """
        session = self._writer.session
        if not session.is_over:
            refuse_to_wait("the program's end")
        if session.is_over or not session.is_own_thread():
            return session.error()
        self._writer.settle()
        error = self._writer.error()
        session.told.append(error)
        return error

    def wait(self) -> Self:
        """Returns when all is there. Raises what went wrong first."""
        try:
            error = self.error()
        except KeyboardInterrupt:
            self._writer.session.cancel()
            raise
        if error is not None:
            raise error
        return self

    def text_iter(self, name: str | None = None) -> Iterator[str]:
        """The text, or that of one value, in pieces as it comes. Raises what went wrong, in its place.

        An interrupt while it waits ends the run.
        """
        try:
            yield from self._pieces(name)
        except KeyboardInterrupt:
            self._writer.session.cancel()
            raise

    async def text_async_iter(self, name: str | None = None) -> AsyncIterator[str]:
        """The same for async code. Cancelled while it waits, it ends the run."""
        try:
            async for piece in aside(self.text_iter(name)):
                yield piece
        except asyncio.CancelledError:
            self._writer.session.cancel()
            raise

    def defer(self, name: str | None, work: Work) -> Value:
        """A value that comes of some work, not yet attached."""
        session = self._writer.session
        value = Value(Deferred(None if name is None else str(name), session.prepared(work), session.bell), self)
        self._writer.await_attachment(value)
        return value

    def _pieces(self, name: str | None) -> Iterator[str]:
        session = self._writer.session
        if name is None and not session.is_over and session.is_own_thread():
            self._writer.settle()  # the program itself: what is there by now
            yield from pieces_of(tuple(self._writer.parts))
        elif name is None:
            yield from pieces_of(self._writer.follow())
            self.wait()
        else:
            yield from flat(self._named(name))[0].pieces()

    def _value_of(self, found: Named) -> Any:
        return [self._value_of(each) for each in found] if isinstance(found, list) else self._read(found).value

    def _named(self, name: str) -> Named:
        self._catch_up(name)
        found = self._writer.names.get(name)
        if found is None:
            known = ", ".join(self._writer.names) or "none"
            raise self._writer.session.program_error or ProgramError(f"no value is named {name}: there are {known}")
        return found

    def _catch_up(self, name: str | None = None) -> None:
        """The program itself sees all that it has made; anybody else waits until it is there."""
        session = self._writer.session
        if session.is_over:
            return
        refuse_to_wait("the program's state")
        if session.is_own_thread():
            self._writer.settle()
        else:
            session.wait_for(lambda: name is not None and name in self._writer.names)

    def _read(self, deferred: Deferred) -> Outcome:
        session = self._writer.session
        if not session.is_over:
            session.reads.append(deferred)
        try:
            return deferred.outcome()
        except Exception as error:
            if not session.is_over and session.is_own_thread():
                session.told.append(error)
            raise

    def _settle(self, value: Value) -> None:
        if not value._deferred.is_attached:
            refuse_to_wait(repr(value))
            self._writer.settle(value)

    def _bound(self, role: Role) -> Role:
        role.state = self
        if role.atoms is not None:
            self._writer.await_attachment(role)
        return role
