"""Branches of a state: so many that go on from the same text at the same time, and come together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Self

from sapwood.errors import ProgramError
from sapwood.expressions import Expression, Joinable, atoms_of
from sapwood.roles import Role
from sapwood.values import Value
from sapwood.writer import values_in

if TYPE_CHECKING:
    from sapwood.state import State


class Forks:
    """`forks[i]` is a state; `forks += …` attaches to all of them, a generation of its own to each."""

    def __init__(self, parent: State, states: list[State]) -> None:
        self._parent = parent
        self._states = states

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[State]:
        return iter(self._states)

    def __getitem__(self, place: int) -> State:
        return self._states[place]

    def __setitem__(self, place: int, state: State) -> None:
        """For `forks[i] += …` alone."""
        if state is not self._states[place]:
            raise ProgramError("a fork cannot be replaced")

    def __iadd__(self, other: object) -> Self:
        atoms = tuple(atoms_of(other))
        for value in values_in(atoms):
            value._home._writer.forget(value)
        for state in self._states:
            state += Expression(tuple(_copied(atom, state) for atom in atoms))
        return self

    def join(self, mode: Literal["gather", "concat"] = "gather") -> None:
        """Waits for the branches. Then the parent's `s["name"]` is the list of what they gave the name "name", in their
        order, without those that gave it nothing. "concat": its text goes on with theirs, too, one after the other.

        What went wrong in a branch is raised where it is read.
        """
        if mode not in ("gather", "concat"):
            raise ProgramError(f"there is no mode {mode!r}: there are gather and concat")
        parent, branches = self._parent._writer, [state._writer for state in self._states]
        for writer in (*branches, parent):
            writer.settle()
        if mode == "concat":
            parent.concatenate(branches)
        parent.gather(branches)
        for branch in branches:
            branch.error()


def _copied(atom: str | Joinable, state: State) -> str | Joinable:
    match atom:
        case Value() if not atom._deferred.is_attached:
            return state.defer(atom._deferred.name, atom._deferred.work)
        case Role():
            return atom.with_atoms(tuple(_copied(each, state) for each in atom.atoms or ()))
        case _:
            return atom
