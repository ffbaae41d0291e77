"""From the bytes of a body to a checked struct; whatever is wrong becomes an InvalidRequest that names the parameter.

Knows JSON and msgspec. Does not know what the fields mean. A field that is null counts as absent, as clients send it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from services.gateway.errors import InvalidRequest
from services.gateway.schemas.broken_json import explained
from shared.choices import one_of
from shared.nearest import did_you_mean

T = TypeVar("T", bound=msgspec.Struct)

LONGEST_NAME = 64  # of an unknown field: what is longer is cut before it is compared and echoed
MAX_NESTING = 256  # of JSON that is handed on as it is
LONGEST_PROBLEM = 256  # msgspec's words may quote the value

_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


class FieldRules(msgspec.Struct, frozen=True):
    """What besides the struct's own fields an object may hold."""

    ignored: frozenset[str] = frozenset()  # harmless, whatever they say
    unsupported: Mapping[str, tuple[Any, ...]] = {}  # refused, but for these values, which ask for nothing
    instead: Mapping[str, str] = {}  # of these and of further unsupported ones: what to use


NO_RULES = FieldRules()


def decode_object(body: bytes) -> dict[str, Any]:
    if not body:
        raise InvalidRequest("the body is empty", code="invalid_json")
    try:
        decoded = msgspec.json.decode(body)
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply", code="invalid_json") from None
    except msgspec.MsgspecError as error:
        plain = InvalidRequest(f"the body is not valid JSON: {error}", code="invalid_json")
        raise explained(body) or plain from None
    if not isinstance(decoded, dict):
        raise InvalidRequest("the body is not an object", code="invalid_json")
    return decoded


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest("expected an object")
    return value


def convert(value: Any, struct: type[T], rules: FieldRules = NO_RULES, *, strict: bool = True) -> T:
    """Not `strict`: numbers may be written as text."""
    raw = as_object(value)
    known = field_names(struct)
    for name in raw:
        if name not in known:
            _check_foreign(name, raw[name], known, rules)
    try:
        given = {name: raw[name] for name in raw if name in known and raw[name] is not None}
        return msgspec.convert(given, struct, strict=strict)
    except msgspec.ValidationError as error:
        raise _located(str(error), struct) from None


def missing(param: str) -> InvalidRequest:
    return InvalidRequest("this field is required", param, "missing_required_parameter")


def field_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    """As the client writes them."""
    return frozenset(struct.__struct_encode_fields__)


def _check_foreign(name: str, value: Any, known: frozenset[str], rules: FieldRules) -> None:
    if name in rules.ignored:
        return
    if name not in rules.unsupported and name not in rules.instead:
        name, names = name[:LONGEST_NAME], known | rules.ignored | rules.unsupported.keys()
        raise InvalidRequest(f"unknown field{did_you_mean(name, names)}", name, "unknown_parameter")
    neutral = rules.unsupported.get(name, ())
    if value is not None and not any(type(value) is type(item) and value == item for item in neutral):
        allowed = " or ".join(msgspec.json.encode(item).decode() for item in neutral)
        hint = f" (only {allowed})" if allowed else ""
        hint += f"; use {rules.instead[name]}" if name in rules.instead else ""
        raise InvalidRequest(f"not supported{hint}", name, "unsupported_parameter")


def check_nesting(value: Any, param: str, most: int = MAX_NESTING) -> None:
    """What is nested deeper could not be sent on."""
    level = [value]
    for _ in range(most):
        if not level:
            return
        level = [inner for outer in level for inner in _inside(outer)]
    raise InvalidRequest(f"nested more than {most} levels deep", param)


def _inside(value: Any) -> Iterable[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (inner for inner in found if isinstance(inner, dict | list))


def _located(message: str, struct: type[msgspec.Struct]) -> InvalidRequest:
    """From msgspec's words: "Expected `int`, got `str` - at `$.messages[0].role`". Its own path is the last one."""
    text, _, place = message.rpartition(" - at `$")
    text, place = (text, place.rstrip("`")) if text else (message, "")
    path = re.sub(r"\[(\d+)\]", r".\1", place).replace("[...]", "").strip(".")
    absent = _MISSING.fullmatch(text)
    if absent is not None:
        param = f"{path}.{absent['name']}" if path else absent["name"]
        return missing(param)
    problem = text.replace("`", "")[:LONGEST_PROBLEM] + one_of(text, struct, place)
    return InvalidRequest(problem[:1].lower() + problem[1:], path or None)
