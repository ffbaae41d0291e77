"""What can be attached to a state: text, values, roles, and any of them joined by +. Pure: order, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sapwood.errors import ProgramError


class Joinable:
    """What `+` joins to text, and to others of its kind, in this order."""

    def __add__(self, other: Any) -> Any:
        return Expression((*atoms_of(self), *atoms_of(other)))

    def __radd__(self, other: Any) -> Any:
        return Expression((*atoms_of(other), *atoms_of(self)))


class Expression(Joinable):
    """Args:
    atoms: text and joinables that are no expressions.
    """

    def __init__(self, atoms: tuple[str | Joinable, ...]) -> None:
        self.atoms = atoms

    def __str__(self) -> str:
        return "".join(map(str, self.atoms))

    def __repr__(self) -> str:
        return f"<{' + '.join(map(repr, self.atoms))}>"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def atoms_of(thing: object) -> Iterator[str | Joinable]:
    """Raises ProgramError for what cannot be attached."""
    match thing:
        case str():
            yield thing
        case Expression():
            yield from thing.atoms
        case Joinable():
            yield thing
        case _:
            raise ProgramError(f"a {type(thing).__name__} cannot be attached: text, gen, select and roles can")
