"""A JSON schema, rewritten into the few forms that the engine is known to keep. Knows all keywords, but no type's own.

At each place of the output a conjunction of schemas applies: a schema with what its `$ref` and `allOf` lead to. From
it comes one of: listed values; alternatives, each with all that applies beside them; or one form for each type. What is
reached through a reference is compiled once for each conjunction, and may lead to itself; what could then never end is
left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from services.executor.constraint.source import schema_any
from services.executor.constraint.source.choices import MAX_TEXT_BYTES
from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_arrays import array
from services.executor.constraint.source.schema_disjoint import canonical, disjoint
from services.executor.constraint.source.schema_document import Document
from services.executor.constraint.source.schema_finite import finite_names
from services.executor.constraint.source.schema_flatten import Flattener
from services.executor.constraint.source.schema_formats import ANYTHING, PATTERNS
from services.executor.constraint.source.schema_matches import Matches
from services.executor.constraint.source.schema_numbers import FORMATS, number
from services.executor.constraint.source.schema_numbers import writable as writable_number
from services.executor.constraint.source.schema_objects import object_
from services.executor.constraint.source.schema_parts import Conjunction, Emitted, Key, Located, Part, each, types_of
from services.executor.constraint.source.schema_strings import string
from services.executor.constraint.source.schema_strings import writable as writable_text
from services.executor.constraint.source.schema_values import Values
from shared.config import ConstraintsConfig

UNLESS_STRICT = "`strict: false`, or `strict_schema: false`, leaves it to the model"
MAX_PLACES = 20_000  # at which a conjunction is compiled, and values that are listed


class Compiler:
    """Of one schema; `compiled` is called once."""

    def __init__(self, document: Document, caps: ConstraintsConfig, *, strict: bool) -> None:
        self.caps = caps
        self._document = document
        self._strict = strict
        self.matches = Matches(caps, self.unenforced)
        self._flattener = Flattener(document, self.unenforced)
        self._values = Values(document, self._flattener, self.matches, self.unenforced)
        self._reason: Refused | None = None
        self._impossible: set[Key] = set()
        self._places = 0
        self._names: dict[Key, str] = {}
        self._pending: list[tuple[str, list[Part]]] = []

    def compiled(self) -> dict[str, Any]:
        """The schema for the engine, with its definitions.

        Raises:
            Refused: something cannot be enforced, or no value is valid.
        """
        while True:
            root, definitions = self._pass()
            finite = finite_names(definitions)
            dead = {key for key, name in self._names.items() if name not in finite}
            if not dead - self._impossible:
                break
            self._impossible |= dead
        if root is None:
            raise self._reason or Refused("no value is valid")
        uses_any = any(schema_any.NAME in str(value) for value in (root, *definitions.values()))
        return {**root, "$defs": {**definitions, **(schema_any.definitions() if uses_any else {})}}

    def child(self, conjunction: Conjunction) -> Emitted:
        parts, referred = self._flattener.flatten(conjunction)
        if parts is None:
            return self.never("no value is valid: the schema is false", conjunction[0].path)
        if not parts:
            return schema_any.REFERENCE
        if not referred:
            return self._built(parts)
        key = tuple((part.path, part.done) for part in parts)
        if key in self._impossible:
            return None
        if key not in self._names:
            self._names[key] = f"ref{len(self._names)}"
            self._pending.append((self._names[key], parts))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def built(self, conjunction: Conjunction) -> Emitted:
        parts, _ = self._flattener.flatten(conjunction)
        return None if parts is None else self._built(parts)

    def unenforced(self, message: str, path: Path) -> None:
        if self._strict:
            raise Refused(f"{message}; {UNLESS_STRICT}", path)

    def never(self, message: str, path: Path) -> Emitted:
        self._reason = self._reason or Refused(message, path)
        return None

    def _pass(self) -> tuple[Emitted, dict[str, Emitted]]:
        self._names.clear()
        root = self.child([Located(self._document.root, ())])
        definitions: dict[str, Emitted] = {}
        while self._pending:
            name, parts = self._pending.pop()
            definitions[name] = self._built(parts)
        return root, definitions

    def _spend(self, places: int) -> None:
        self._places += places
        if self._places > MAX_PLACES:
            raise Refused("the schema is too large, or its alternatives multiply")

    def _built(self, parts: list[Part]) -> Emitted:
        self._spend(1)
        for part in parts:
            if "const" in part.schema or "enum" in part.schema:
                return self._listed(part, parts)
        for part in parts:
            for keyword in ("anyOf", "oneOf"):
                if part.get(keyword) is not None:
                    return self._alternatives(part, keyword, parts)
        return self._typed(parts)

    def _listed(self, lister: Part, parts: list[Part]) -> Emitted:
        keyword = "const" if "const" in lister.schema else "enum"
        listed, path = lister.schema[keyword], lister.at(keyword)
        values = [listed] if keyword == "const" else listed
        self._check_sizes(values, path)
        distinct = {canonical(value): value for value in values}.values()
        writable = [value for value in distinct if _writable(value)]
        if len(writable) < len(distinct):
            self.unenforced("a value has a control character, or a number too large or fine to be exact", path)
        beside = [part.without(keyword) if part is lister else part for part in parts]
        kept = [value for value in writable if all(self._values.satisfies(value, part) for part in beside)]
        return {"enum": kept} if kept else self.never("none of the listed values is valid", path)

    def _check_sizes(self, values: list[Any], path: Path) -> None:
        self._spend(len(values))
        if len(values) > self.caps.max_enum_values:
            raise Refused(f"{len(values)} values; at most {self.caps.max_enum_values} are taken", path)
        for value in values:
            size = len(json.dumps(value, ensure_ascii=False).encode())
            if size > MAX_TEXT_BYTES:
                raise Refused(f"a value of {size} bytes; at most {MAX_TEXT_BYTES} are taken", path)

    def _alternatives(self, chooser: Part, keyword: str, parts: list[Part]) -> Emitted:
        beside: list[Located | Part] = [part.without(keyword) if part is chooser else part for part in parts]
        options = [Located(option, chooser.at(keyword, index)) for index, option in enumerate(chooser.get(keyword))]
        if keyword == "oneOf":
            beside += _told_by(chooser)
            self._check_exclusive(beside, options, chooser.at(keyword))
        emitted = [self.child([*beside, option]) for option in options]
        return _any_of([schema for schema in emitted if schema is not None])

    def _check_exclusive(self, beside: list[Located | Part], options: list[Located], path: Path) -> None:
        flat = [self._flattener.flatten([*beside, option])[0] for option in options]
        possible = [parts for parts in flat if parts is not None]
        self._spend(len(possible) ** 2 // 16)
        for index, left in enumerate(possible):
            for right in possible[index + 1 :]:
                if not disjoint(left, right):
                    return self.unenforced("two of the alternatives could hold at once; anyOf takes that", path)
        return None

    def _typed(self, parts: list[Part]) -> Emitted:
        types = types_of(parts)
        self._check_formats(parts, types)
        forms: list[Emitted] = []
        if "null" in types:
            forms.append({"type": "null"})
        if "boolean" in types:
            forms.append({"type": "boolean"})
        if "integer" in types:
            forms.append(number(parts, self, fractions="fraction" in types))
        if "string" in types:
            forms.append(string(parts, self))
        if "array" in types:
            forms.append(array(parts, self))
        if "object" in types:
            forms.append(object_(parts, self))
        if not forms:
            return self.never("the types exclude each other", parts[0].path)
        return _any_of([form for form in forms if form is not None])

    def _check_formats(self, parts: list[Part], types: set[str]) -> None:
        for value, path in each(parts, "format"):
            of_strings, of_numbers = value in PATTERNS or value in ANYTHING, value in FORMATS
            if not (of_strings or of_numbers) or (of_numbers and "integer" not in types):
                self.unenforced(f"format {value!r} cannot be enforced", path)


def _told_by(chooser: Part) -> list[Located]:
    """That the property which tells alternatives apart is there, even if it has a default."""
    discriminator = chooser.schema.get("discriminator")
    name = discriminator.get("propertyName") if isinstance(discriminator, dict) else None
    return [Located({"required": [name]}, chooser.at("discriminator"))] if isinstance(name, str) else []


def _any_of(options: Sequence[dict[str, Any]]) -> Emitted:
    flat: list[dict[str, Any]] = []
    for option in options:
        flat += option["anyOf"] if option.keys() == {"anyOf"} else [option]
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _writable(value: Any) -> bool:
    if isinstance(value, str):
        return writable_text(value)
    if isinstance(value, (int, float)):
        return writable_number(value)
    if isinstance(value, list):
        return all(_writable(item) for item in value)
    if isinstance(value, dict):
        return all(writable_text(key) and _writable(item) for key, item in value.items())
    return True
