"""Values among what other statements are given: where they are, and what is done once they are there.

Looks into lists, tuples and mappings, and into text joined with +. Does not know what the statements do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sapwood.deferred import Deferred, Outcome, Situation, Work
from sapwood.errors import ProgramError
from sapwood.expressions import Expression, Joinable
from sapwood.trace import Kind
from sapwood.values import Value


class WorkOfValues:
    """Some work that is made once the values are there which it is made of."""

    def __init__(self, kind: Kind, inputs: tuple[Deferred, ...], made: Callable[[], Work]) -> None:
        self.kind: Kind = kind
        self.inputs = inputs
        self.made = made

    async def outcome(self, situation: Situation) -> Outcome:
        for deferred in self.inputs:
            await deferred.wait()
        return await self.made().outcome(situation)

    def details(self) -> Mapping[str, str]:
        return self.made().details()


def work_of(kind: Kind, make: Callable[..., Work], **given: Any) -> Work:
    """What is made of what was given: now, if there are no values in it."""
    inputs = attached(given)
    return WorkOfValues(kind, inputs, lambda: make(**filled(given))) if inputs else make(**filled(given))


def attached(thing: object) -> tuple[Deferred, ...]:
    """The values in it. One that is not attached yet is, where its program stands."""
    values = list(_values_in(thing))
    for value in values:
        value._home._settle(value)
    return tuple(value._deferred for value in values)


def filled(thing: Any) -> Any:
    """The same with what the values came to, which are attached. Waits for them."""
    match thing:
        case Value():
            return thing._deferred.outcome().value
        case Expression():
            return "".join(_text(atom) for atom in thing.atoms)
        case Mapping():
            return {key: filled(each) for key, each in thing.items()}
        case list():
            return [filled(each) for each in thing]
        case tuple():
            return tuple(filled(each) for each in thing)
        case _:
            return thing


def _values_in(thing: object) -> Iterator[Value]:
    match thing:
        case Value():
            yield thing
        case Expression(atoms=atoms):
            yield from _values_in(atoms)
        case Mapping():
            yield from _values_in(tuple(thing.values()))
        case list() | tuple():
            for each in thing:
                yield from _values_in(each)
        case _:
            pass


def _text(atom: str | Joinable) -> str:
    match atom:
        case str():
            return atom
        case Value():
            outcome = atom._deferred.outcome()
            return outcome.value if isinstance(outcome.value, str) else outcome.text
        case _:
            raise ProgramError(f"{atom!r} is no text")
