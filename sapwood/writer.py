"""Writes the transcript of one state: what is attached, in which message, in which order. Does not read it to anyone.

Values and a state's messages that the program has made and not yet attached wait in `_pending`, in order; they are
attached before anything else is, so that the text follows the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from sapwood.deferred import Deferred, Situation
from sapwood.errors import ProgramError
from sapwood.expressions import Joinable, atoms_of
from sapwood.roles import Role, RoleMark
from sapwood.session import Session
from sapwood.transcript import ASSISTANT, Closed, Opened, Part, deferred_in, prompt_of
from sapwood.values import Value

Named: TypeAlias = "Deferred | list[Named]"  # a list: what branches gave


class Writer:
    """Args:
    origin: the writer that this one starts as a copy of.
    """

    def __init__(self, session: Session, origin: Writer | None = None) -> None:
        self.session = session
        self.parts: list[Part] = list(origin.parts) if origin else []
        self.names: dict[str, Named] = dict(origin.names) if origin else {}
        self.inherited = len(self.parts)  # so many parts are the origin's
        self._last: list[Deferred] = list(origin._last) if origin else []  # when these are there, all values are
        self._inherited_names = dict(self.names)
        self.branch: tuple[int, ...] = (*origin.branch, origin._forks) if origin else ()
        self._roles: list[Opened] = list(origin._roles) if origin else []  # of the blocks that the program is in
        self._is_open: bool = origin._is_open if origin else False  # a message is
        self._pending: list[Value | Role] = []
        self._forks: int = 0
        session.writers.append(self)

    def fork(self) -> Writer:
        self.settle()
        branch = Writer(self.session, self)
        self._forks += 1
        return branch

    def own_parts(self) -> list[Part]:
        """Since the fork."""
        return self.parts[self.inherited :]

    def own_values(self) -> list[Deferred]:
        return deferred_in(self.own_parts())

    def own_names(self) -> dict[str, Named]:
        """Those given since the fork, also anew."""
        return {name: found for name, found in self.names.items() if self._inherited_names.get(name) is not found}

    def gather(self, branches: Sequence[Writer]) -> None:
        """Each name that any of them gave is the list of what they gave, in their order, instead of what it was."""
        given = [branch.own_names() for branch in branches]
        for name in dict.fromkeys(itertools.chain.from_iterable(given)):
            self.names[name] = [names[name] for names in given if name in names]

    def concatenate(self, branches: Sequence[Writer]) -> None:
        """Raises ProgramError where their text is not one text."""
        for branch in branches:
            if branch._roles != self._roles or any(isinstance(part, Closed) for part in branch.own_parts()):
                raise ProgramError('join("concat") takes text: a branch has begun or ended a message of its own')
        for part in itertools.chain.from_iterable(branch.own_parts() for branch in branches):
            if not isinstance(part, Opened | Closed):
                self._write(part)

    def error(self) -> BaseException | None:
        """Waits for all values. What went wrong first."""
        errors = [deferred.error() for deferred in self.own_values()]
        return next(filter(None, errors), None)

    def follow(self) -> Iterator[Part]:
        """The parts as they come, to the program's end."""
        for place in itertools.count():
            self._wait_for_part(place)
            if len(self.parts) == place:
                return
            yield self.parts[place]

    def attach(self, thing: object) -> None:
        """Raises ProgramError where it does not fit."""
        atoms = tuple(atoms_of(thing))
        kept = {id(made) for made in made_in(atoms)}
        for made in [made for made in self._pending if id(made) not in kept]:
            self._put(made)
        for atom in atoms:
            self._put(atom)

    def await_attachment(self, made: Value | Role) -> None:
        """Instead of the values in it, which come with it."""
        for within in made_in((made,)):
            self.forget(within)
        self._pending.append(made)

    def forget(self, made: Value | Role) -> None:
        """It is being attached, here or elsewhere."""
        self._pending = [each for each in self._pending if each is not made]

    def settle(self, until: Value | None = None) -> None:
        """Attach what waits for it, as far as this value or all."""
        while self._pending and not (until is not None and until._deferred.is_attached):
            self._put(self._pending[0])
        if until is not None and not until._deferred.is_attached:
            raise ProgramError(f"{until!r} is nowhere: it was handed to every fork (read it there), or did not fit")

    def enter(self, role: Opened) -> int:
        """How many blocks there are around it, for `unwind`."""
        self.settle()
        self._close()
        self._roles.append(role)
        return len(self._roles) - 1

    def unwind(self, outside: int) -> None:
        """An error goes through the blocks behind these."""
        self._close()
        del self._roles[outside:]

    def leave(self, role: str) -> None:
        if not self._roles or self._roles[-1].role != role:
            known = ", ".join(each.role for each in self._roles) or "none"
            raise ProgramError(f"no block of {role} ends here: {known} is open")
        self._close()
        self._roles.pop()

    def _wait_for_part(self, place: int) -> None:
        self.session.wait_for(lambda: len(self.parts) > place)

    def _put(self, atom: str | Joinable) -> None:
        match atom:
            case str():
                self._write(atom)
            case Value():
                self._put_value(atom)
            case Role():
                self._say(atom)
            case RoleMark(begins=True):
                self.enter(Opened(atom.name))
            case RoleMark():
                self.leave(atom.name)
            case _:
                raise ProgramError(f"{atom!r} cannot be attached")

    def _put_value(self, value: Value) -> None:
        if value._deferred.is_attached:
            self._write(value._deferred)  # once more: its text
        else:
            self._begin(value)

    def _say(self, role: Role) -> None:
        """A message of its own."""
        if role.atoms is None:
            raise ProgramError(f"{role.name}() without text is a block: with {role.name}(): …")
        forget(role)
        self._close()
        outside = len(self._roles)
        self._roles.append(role.opening)
        try:
            if not any(isinstance(atom, Role) for atom in role.atoms):  # those are messages of their own
                self._open()
            for atom in role.atoms:
                self._put(atom)
        finally:
            self.unwind(outside)

    def _begin(self, value: Value) -> None:
        """What it goes on from is what is there now."""
        forget(value)
        self._open()
        deferred = value._deferred
        if self._roles and self._roles[-1].role != ASSISTANT and deferred.work.kind != "call":
            raise ProgramError(
                f"{deferred.name} stands in a message of {self._roles[-1].role}: only the assistant generates"
            )
        so_far, before = tuple(self.parts), self._last
        deferred.reads, self.session.reads = tuple(self.session.reads), []
        with self.session.bell:
            self.session.check_going_on()
            deferred.start(before, lambda show: self._situation(so_far, show))
            self._append(deferred)
            self._last = [deferred]
        if deferred.name is not None:
            self.names[deferred.name] = deferred

    def _situation(self, so_far: tuple[Part, ...], show: Callable[[str], None]) -> Situation:
        prompt, continues = prompt_of(so_far)
        return Situation(
            backend=self.session.backend,
            prompt=prompt,
            continues=continues,
            defaults=self.session.defaults,
            show=show if self.session.streams else None,
        )

    def _write(self, part: Part) -> None:
        if part != "":
            self._open()
            self._append(part)
            if isinstance(part, Deferred):
                self._last.append(part)

    def _open(self) -> None:
        """Make sure that what comes stands in a message, if the program has any."""
        is_chat = bool(self.parts) and isinstance(self.parts[0], Opened)
        if not self._roles:
            if is_chat:
                raise ProgramError("this program has roles: what stands outside of them is nobody's")
        elif not self._is_open:
            if self.parts and not is_chat:
                raise ProgramError("this program began with text outside of roles: it cannot have any now")
            self._append(self._roles[-1])
            self._is_open = True

    def _close(self) -> None:
        if self._is_open:
            self._append(Closed())
            self._is_open = False

    def _append(self, part: Part) -> None:
        with self.session.bell:
            self.parts.append(part)
            self.session.bell.notify_all()


def made_in(atoms: Iterable[str | Joinable]) -> Iterator[Value | Role]:
    """The values and messages in it, also those within messages."""
    for atom in atoms:
        if isinstance(atom, Value | Role):
            yield atom
        if isinstance(atom, Role):
            yield from made_in(atom.atoms or ())


def forget(made: Value | Role) -> None:
    """It is being attached: it no longer waits where it was made."""
    if isinstance(made, Role):
        made.is_attached = True
    home = made._home if isinstance(made, Value) else made.state
    if home is not None:
        home._writer.forget(made)


def flat(found: Named) -> list[Deferred]:
    return [deferred for each in found for deferred in flat(each)] if isinstance(found, list) else [found]
