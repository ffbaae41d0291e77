"""Whether a listed value satisfies what stands beside it, as a validator judges that. Knows nothing of the engine.

What a validator would judge and this does not is refused, as it is elsewhere, or left to the model.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from services.executor.constraint.source.refused import Path
from services.executor.constraint.source.schema_disjoint import canonical
from services.executor.constraint.source.schema_document import Document
from services.executor.constraint.source.schema_flatten import Flattener
from services.executor.constraint.source.schema_formats import ANYTHING, MAX_LENGTHS, PATTERNS
from services.executor.constraint.source.schema_keywords import APPLICATORS, ARRAYS, ENFORCED, NUMBERS, OBJECTS, STRINGS
from services.executor.constraint.source.schema_matches import Matches
from services.executor.constraint.source.schema_numbers import FORMATS, INT32
from services.executor.constraint.source.schema_parts import Part
from services.executor.constraint.source.schema_shape import is_integer, is_number

_IS_TYPE: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "number": is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


class Values:
    def __init__(
        self, document: Document, flattener: Flattener, matches: Matches, unenforced: Callable[[str, Path], None]
    ) -> None:
        self._document = document
        self._flattener = flattener
        self._matches = matches
        self._unenforced = unenforced
        self._listed: dict[Path, frozenset[str]] = {}

    def satisfies(self, value: Any, part: Part) -> bool:
        """All of its keywords that are not done with."""
        return all(self._keeps(value, keyword, part) for keyword in part.schema if keyword not in part.done)

    def _is_valid(self, value: Any, schema: Any, path: Path) -> bool:
        if isinstance(schema, bool):
            return schema
        self._flattener.check(schema, path)
        return self.satisfies(value, Part(schema, path))

    def _keeps(self, value: Any, keyword: str, part: Part) -> bool:
        said, path = part.schema[keyword], part.at(keyword)
        if keyword not in ENFORCED:
            return True
        if keyword in APPLICATORS:
            return self._applies(value, keyword, said, path)
        if keyword == "format":
            return self._has_format(value, said, path)
        if isinstance(value, str):
            return keyword not in STRINGS or self._string(value, keyword, said, path)
        if isinstance(value, list):
            return keyword not in ARRAYS or self._array(value, keyword, said, part)
        if isinstance(value, dict):
            return keyword not in OBJECTS or self._object(value, keyword, said, part)
        return keyword not in NUMBERS or not is_number(value) or _number(value, keyword, said)

    def _applies(self, value: Any, keyword: str, said: Any, path: Path) -> bool:
        match keyword:
            case "type":
                return any(_IS_TYPE[name](value) for name in ([said] if isinstance(said, str) else said))
            case "const" | "enum":
                if path not in self._listed:
                    self._listed[path] = frozenset(map(canonical, [said] if keyword == "const" else said))
                return canonical(value) in self._listed[path]
            case "$ref":
                return self._is_valid(value, *self._document.resolve(said, path))
        held = (self._is_valid(value, option, (*path, index)) for index, option in enumerate(said))
        return all(held) if keyword == "allOf" else any(held) if keyword == "anyOf" else sum(held) == 1

    def _has_format(self, value: Any, name: str, path: Path) -> bool:
        if isinstance(value, str) and name in PATTERNS:
            within = name not in MAX_LENGTHS or len(value) <= MAX_LENGTHS[name]
            return within and self._matches.whole(f"^(?:{PATTERNS[name]})$", value)
        if name == "int32":
            return not is_number(value) or INT32[0] <= value <= INT32[1]
        if name not in PATTERNS and name not in ANYTHING and name not in FORMATS:
            self._unenforced(f"format {name!r} cannot be enforced", path)
        return True

    def _string(self, value: str, keyword: str, said: Any, path: Path) -> bool:
        match keyword:
            case "minLength":
                return len(value) >= int(said)
            case "maxLength":
                return len(value) <= int(said)
            case _:
                return self._matches.search(said, value, path) is not False

    def _array(self, value: list[Any], keyword: str, said: Any, part: Part) -> bool:
        path = part.at(keyword)
        match keyword:
            case "minItems":
                return len(value) >= int(said)
            case "maxItems":
                return len(value) <= int(said)
            case "prefixItems":
                pairs = enumerate(zip(value, said, strict=False))
                return all(self._is_valid(item, schema, (*path, index)) for index, (item, schema) in pairs)
            case _:
                rest = value[len(part.get("prefixItems") or []) :]
                return all(self._is_valid(item, said, path) for item in rest)

    def _object(self, value: dict[str, Any], keyword: str, said: Any, part: Part) -> bool:
        path = part.at(keyword)
        match keyword:
            case "minProperties":
                return len(value) >= int(said)
            case "maxProperties":
                return len(value) <= int(said)
            case "required":
                return all(name in value for name in said)
            case "propertyNames":
                return all(self._is_valid(name, said, path) for name in value)
            case "properties":
                return all(self._is_valid(value[name], said[name], (*path, name)) for name in value if name in said)
            case "patternProperties":
                pairs = [(name, by) for name in value for by in said if self._matches.search(by, name, (*path, by))]
                return all(self._is_valid(value[name], said[by], (*path, by)) for name, by in pairs)
            case _:
                return all(self._is_valid(value[name], said, path) for name in value if not self._is_told(name, part))

    def _is_told(self, name: str, part: Part) -> bool:
        """Whether `additionalProperties` does not speak of it."""
        patterns = part.get("patternProperties") or {}
        path = part.at("patternProperties")
        found = (self._matches.search(pattern, name, (*path, pattern)) for pattern in patterns)
        return name in (part.get("properties") or {}) or any(one is not False for one in found)


def _number(value: float, keyword: str, said: float) -> bool:
    match keyword:
        case "minimum":
            return value >= said
        case "maximum":
            return value <= said
        case "exclusiveMinimum":
            return value > said
        case "exclusiveMaximum":
            return value < said
        case _:
            return _is_multiple(value, said)


def _is_multiple(value: float, step: float) -> bool:
    """As jsonschema divides."""
    if isinstance(step, int):
        return Fraction(value) % step == 0
    quotient = value / step
    try:
        return int(quotient) == quotient
    except OverflowError:
        return Fraction(value) % Fraction(step) == 0
