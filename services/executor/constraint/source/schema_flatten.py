"""Which schema objects apply at one place, by following `$ref` and `allOf`. Knows nothing of what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_document import Document
from services.executor.constraint.source.schema_keywords import ENFORCED, objection
from services.executor.constraint.source.schema_parts import Conjunction, Located, Part

_FOLLOWED = frozenset({"$ref", "allOf"})


class Flattener:
    def __init__(self, document: Document, unenforced: Callable[[str, Path], None]) -> None:
        self._document = document
        self._unenforced = unenforced
        self._checked: set[Path] = set()

    def flatten(self, conjunction: Conjunction) -> tuple[list[Part] | None, bool]:
        """The parts in the order in which they are written, each once, and whether a reference led to some of them.

        None if one of the schemas is `false`.

        Raises:
            Refused: a keyword cannot be kept, or a schema is defined by itself.
        """
        parts: dict[Path, Part | None] = {}
        referred = False
        for item in conjunction:
            if isinstance(item, Part):
                parts.setdefault(item.path, item)
                continue
            for path, part, by_reference in self._parts(item, frozenset()):
                known = parts.setdefault(path, part)
                if known is not None and part is not None and known.done != part.done:
                    raise Refused("one of the alternatives is nothing but the schema itself", item.path)
                referred |= by_reference
        if None in parts.values():
            return None, referred
        return [part for part in parts.values() if part is not None and _asks(part)], referred

    def _parts(self, item: Located, within: frozenset[Path]) -> Iterator[tuple[Path, Part | None, bool]]:
        if item.path in within:
            raise Refused("the schema is defined by nothing but itself", item.path)
        if isinstance(item.schema, bool):
            if not item.schema:
                yield item.path, None, False
            return
        self.check(item.schema, item.path)
        within |= {item.path}
        own = Part(item.schema, item.path, _FOLLOWED)
        for keyword in _in_order(item.schema):
            match keyword:
                case "$ref":
                    target = Located(*self._document.resolve(item.schema["$ref"], (*item.path, "$ref")))
                    yield from ((path, part, True) for path, part, _ in self._parts(target, within))
                case "allOf":
                    for index, schema in enumerate(item.schema["allOf"]):
                        yield from self._parts(Located(schema, (*item.path, "allOf", index)), within)
                case _:
                    yield item.path, own, False

    def check(self, schema: dict[str, Any], path: Path) -> None:
        if path in self._checked:
            return
        self._checked.add(path)
        if "x-guidance" in schema:
            raise Refused("x-guidance is the server's own", (*path, "x-guidance"))
        for keyword, value in schema.items():
            if keyword == "$id":
                if path:
                    raise Refused("$id is taken at the root only", (*path, keyword))
                continue
            message = objection(keyword, value)
            if message is not None:
                self._unenforced(message, (*path, keyword))


def _in_order(schema: dict[str, Any]) -> list[str]:
    """`$ref`, `allOf`, and the first of the other keywords, standing for all of them."""
    others = [keyword for keyword in schema if keyword in ENFORCED and keyword not in _FOLLOWED]
    return [keyword for keyword in schema if keyword in _FOLLOWED or keyword in others[:1]]


def _asks(part: Part) -> bool:
    return bool((ENFORCED & part.schema.keys()) - part.done)
