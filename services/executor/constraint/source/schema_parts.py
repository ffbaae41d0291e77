"""The schemas that all apply at one place of the output, and what its builders ask of the compiler. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.executor.constraint.source.refused import Path
from services.executor.constraint.source.schema_matches import Matches
from services.executor.constraint.source.schema_shape import Schema
from shared.config import ConstraintsConfig

Emitted = dict[str, Any] | None  # a schema for the engine; None where no value is valid
Key = tuple[tuple[Path, frozenset[str]], ...]  # a conjunction, by where its parts are


@dataclass(frozen=True, slots=True)
class Located:
    """Any schema and where it is."""

    schema: Schema
    path: Path


@dataclass(frozen=True, slots=True)
class Part:
    """The keywords of one schema object, but for `$ref` and `allOf`, and those that are done with."""

    schema: dict[str, Any]
    path: Path
    done: frozenset[str] = frozenset()

    def get(self, keyword: str) -> Any:
        return None if keyword in self.done else self.schema.get(keyword)

    def without(self, keyword: str) -> Part:
        return Part(self.schema, self.path, self.done | {keyword})

    def at(self, *more: str | int) -> Path:
        return (*self.path, *more)


Conjunction = Sequence[Located | Part]


class Context(Protocol):
    """What builds an object or an array sees of the compiler."""

    @property
    def caps(self) -> ConstraintsConfig: ...

    @property
    def matches(self) -> Matches: ...

    def child(self, conjunction: Conjunction) -> Emitted:
        """What satisfies all of these."""

    def built(self, conjunction: Conjunction) -> Emitted:
        """The same, written out where it stands."""

    def unenforced(self, message: str, path: Path) -> None:
        """Something cannot be kept: raises Refused, unless that is left to the model."""

    def never(self, message: str, path: Path) -> Emitted:
        """No value is valid here, and why; gives None."""


def each(parts: Sequence[Part], keyword: str) -> Iterator[tuple[Any, Path]]:
    """The keyword's values, and where they are."""
    for part in parts:
        value = part.get(keyword)
        if value is not None:
            yield value, part.at(keyword)


def least(parts: Sequence[Part], keyword: str) -> int | None:
    return min((int(value) for value, _ in each(parts, keyword)), default=None)


def greatest(parts: Sequence[Part], keyword: str) -> int:
    return max((int(value) for value, _ in each(parts, keyword)), default=0)


def types_of(parts: Sequence[Part]) -> set[str]:
    """The types that all allow; a number is an `integer` or a `fraction`."""
    types = {"null", "boolean", "integer", "fraction", "string", "array", "object"}
    for value, _ in each(parts, "type"):
        allowed = {value} if isinstance(value, str) else set(value)
        types &= allowed | ({"integer", "fraction"} if "number" in allowed else set())
    return types
