"""Branches of a state: so many that go on from the same text at the same time, and come together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from sapwood.errors import ProgramError
from sapwood.expressions import Expression, Joinable, atoms_of
from sapwood.roles import Role
from sapwood.values import Value
from sapwood.writer import forget, made_in

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
        """A list has something for each of them, a function makes it of the fork's number."""
        if isinstance(other, list | tuple) or callable(other):
            self._attach_each(other)
            return self
        atoms = tuple(atoms_of(other))
        for made in made_in(atoms):
            forget(made)
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

    def _attach_each(self, given: Sequence[object] | Callable[[int], object]) -> None:
        if not callable(given) and len(given) != len(self):
            raise ProgramError(f"a list of {len(given)} for {len(self)} forks")
        for place, state in enumerate(self._states):
            state += given(place) if callable(given) else given[place]


def _copied(atom: str | Joinable, state: State) -> str | Joinable:
    match atom:
        case Value() if not atom._deferred.is_attached:
            return state.defer(atom._deferred.name, atom._deferred.work)
        case Role():
            return atom.with_atoms(tuple(_copied(each, state) for each in atom.atoms or ()))
        case _:
            return atom
