"""Whether something is a JSON schema: what the metaschema of draft 2020-12 says, in one pass. Knows no meanings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from services.executor.constraint.source import regex
from services.executor.constraint.source.refused import Path, Refused

Schema = dict[str, Any] | bool

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_ANCHOR = re.compile(r"^[A-Za-z_][-A-Za-z0-9._]*$")
_ID = re.compile(r"^[^#]*#?$")


def check_schema(schema: Any, at: Path = ()) -> None:
    """Raises Refused, with the place. Recurses as deep as the schema is."""
    if not isinstance(schema, (dict, bool)):
        raise _refusal("a schema is an object, true or false", at)
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword in _CHECKS:
                _CHECKS[keyword](value, (*at, keyword))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """As JSON schema has it: 1.0 is one."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def _refusal(rule: str, path: Path) -> Refused:
    return Refused(f"not a JSON schema: {rule}", path)


def _holds(rule: str, holds: Callable[[Any], bool]) -> Callable[[Any, Path], None]:
    def check(value: Any, path: Path) -> None:
        if not holds(value):
            raise _refusal(f"{path[-1]} is {rule}", path)

    return check


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    return (isinstance(value, str) and value in _TYPES) or (_are_names(value) and bool(value) and set(value) <= _TYPES)


_is_text = _holds("a string", lambda value: isinstance(value, str))
_is_flag = _holds("true or false", lambda value: isinstance(value, bool))
_is_list = _holds("an array", lambda value: isinstance(value, list))
_is_map = _holds("an object", lambda value: isinstance(value, dict))
_is_name_list = _holds("an array of strings, each of them once", _are_names)
_is_anchor = _holds("a name", lambda value: isinstance(value, str) and bool(_ANCHOR.match(value)))
_is_id = _holds("an address without a fragment", lambda value: isinstance(value, str) and bool(_ID.match(value)))
_is_bound = _holds("a number", is_number)
_is_count = _holds("an integer, not below 0", lambda value: is_integer(value) and value >= 0)


def _pattern(value: Any, path: Path) -> None:
    _is_text(value, path)
    try:
        regex.parsed(value)
    except Refused as refused:
        raise Refused(refused.message, path) from None


def _schemas(value: Any, path: Path) -> None:
    _holds("an array of schemas, at least one", lambda value: isinstance(value, list) and bool(value))(value, path)
    for index, schema in enumerate(value):
        check_schema(schema, (*path, index))


def _map_of(check: Callable[[Any, Path], None]) -> Callable[[Any, Path], None]:
    def check_all(value: Any, path: Path) -> None:
        _is_map(value, path)
        for name, item in value.items():
            check(item, (*path, name))

    return check_all


def _by_pattern(value: Any, path: Path) -> None:
    _map_of(check_schema)(value, path)
    for pattern in value:
        _pattern(pattern, (*path, pattern))


def _dependency(value: Any, path: Path) -> None:
    (_is_name_list if isinstance(value, list) else check_schema)(value, path)


def _of_each(*checks: tuple[str, Callable[[Any, Path], None]]) -> dict[str, Callable[[Any, Path], None]]:
    return {keyword: check for keywords, check in checks for keyword in keywords.split()}


_CHECKS = _of_each(
    ("additionalProperties contains contentSchema else if items not propertyNames then", check_schema),
    ("unevaluatedItems unevaluatedProperties", check_schema),
    ("allOf anyOf oneOf prefixItems", _schemas),
    ("$defs definitions dependentSchemas properties", _map_of(check_schema)),
    ("patternProperties", _by_pattern),
    ("pattern", _pattern),
    ("dependencies", _map_of(_dependency)),
    ("dependentRequired", _map_of(_is_name_list)),
    ("required", _is_name_list),
    ("type", _holds("one of " + ", ".join(sorted(_TYPES)) + ", or an array of them", _is_type)),
    ("enum examples", _is_list),
    ("maximum minimum exclusiveMaximum exclusiveMinimum", _is_bound),
    ("multipleOf", _holds("a number above 0", lambda value: is_number(value) and value > 0)),
    ("maxLength minLength maxItems minItems maxContains minContains maxProperties minProperties", _is_count),
    ("deprecated readOnly uniqueItems writeOnly", _is_flag),
    ("$comment $dynamicRef $recursiveRef $ref $schema", _is_text),
    ("contentEncoding contentMediaType description format title", _is_text),
    ("$anchor $dynamicAnchor $recursiveAnchor", _is_anchor),
    ("$id", _is_id),
    ("$vocabulary", _map_of(_is_flag)),
)
