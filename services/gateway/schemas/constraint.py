"""The fields of all APIs that say what the output must be, into the one `wire.Constraint` of a request.

Checks what shows at a glance: that there is one at most, how large it is, that JSON is JSON. What a pattern, a schema
or a grammar means is the executor's affair. Its errors name places within the constraint, and `Asked` keeps what this
client calls them. Stop strings and ids, `min_tokens` and `ignore_eos` may stand beside a constraint: a stop string ends
the output where the client asked for it, whether the constraint is met by then or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from services.gateway.errors import InvalidRequest
from services.gateway.schemas.call import Names
from services.gateway.schemas.decode import check_nesting
from services.gateway.schemas.sampling import SamplingFields
from shared import wire
from shared.config import ConstraintsConfig

ANY_OBJECT = "$$ANY$$"  # SGLang's word, in the place of a schema

Whitespace: TypeAlias = Literal["fixed", "flexible"]  # between JSON's tokens: one separator each, or any

# vLLM's names for the same.
OTHER_NAMES = {
    "guided_choice": "choices",
    "guided_grammar": "ebnf",
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_whitespace_pattern": "json_whitespace",
    "structured_outputs": "regex, json_schema, ebnf, choices or structural_tag",
}


class ConstraintFields(SamplingFields, frozen=True, kw_only=True):
    """At most one of the first five. Schemas and tags are objects, or JSON text."""

    regex: str | None = None  # in Python's syntax, of the whole output
    json_schema: str | dict[str, Any] | None = None
    ebnf: str | None = None  # GBNF or Lark
    choices: list[str] | None = None
    structural_tag: str | dict[str, Any] | None = None
    strict_schema: bool = True  # refuse what of a schema cannot be enforced; else that is left to the model
    json_whitespace: Whitespace = "fixed"


class Asked(msgspec.Struct, frozen=True):
    """A constraint, if there is one, and how the client asked for it."""

    field: str = ""  # of the body
    constraint: wire.Constraint | None = None
    names: Names = {}


NOT_ASKED = Asked()


def only(*asked: Asked) -> Asked:
    """The one with a constraint, if there is any. Raises InvalidRequest, naming the second, if there are two."""
    there = [one for one in asked if one.constraint is not None]
    if len(there) > 1:
        problem = f"stands beside {there[0].field}; a request has one constraint at most"
        raise InvalidRequest(problem, there[1].field)
    return there[0] if there else NOT_ASKED


def asked_by_fields(fields: ConstraintFields, caps: ConstraintsConfig, place: str = "") -> Asked:
    """Args:
    place: the part of the body that the fields stand in, if it is not the body itself.
    """
    sources: dict[wire.ConstraintKind, str | None] = {
        "regex": _pattern(fields.regex, caps),
        "json_schema": _schema(fields.json_schema, caps),
        "ebnf": _text(fields.ebnf, "ebnf", caps.max_source_bytes),
        "choices": _choices(fields.choices, caps),
        "structural_tag": _tags(fields.structural_tag, caps),
    }
    constraints = {kind: _constraint(kind, source, fields) for kind, source in sources.items() if source is not None}
    return only(
        *(
            Asked(field, constraint, {"constraint": f"{place}.{field}" if place else field})
            for field, constraint in constraints.items()
        )
    )


def any_object(fields: ConstraintFields) -> wire.Constraint:
    return wire.Constraint("json_object", "", whitespace=fields.json_whitespace)


def bounded_json(value: Any, param: str, caps: ConstraintsConfig) -> str:
    """JSON of what is small and flat enough to be sent on. Keys keep their order, which is the order of the output."""
    try:
        text = msgspec.json.encode(value).decode()
    except RecursionError:
        raise InvalidRequest("nested too deeply", param) from None
    _check_size(text, param, caps.max_source_bytes)
    check_nesting(value, param)
    return text


def schema_json(schema: Any, param: str, caps: ConstraintsConfig) -> str:
    """The same of a JSON schema, which may be as deep as the executor takes."""
    check_nesting(schema, param, caps.max_depth)
    return bounded_json(schema, param, caps)


def check_sendable(value: Any, param: str, caps: ConstraintsConfig) -> None:
    """Of what is sent on as it is, not as text: no number of more than 64 bits could be."""
    bounded_json(value, param, caps)
    try:
        msgspec.msgpack.encode(value)
    except OverflowError:
        raise InvalidRequest("a number of more than 64 bits", param) from None


def first_repeated(texts: Sequence[str]) -> int | None:
    """The place of the first one that has stood there before."""
    seen: set[str] = set()
    for index, text in enumerate(texts):
        if text in seen:
            return index
        seen.add(text)
    return None


def _constraint(kind: wire.ConstraintKind, source: str, fields: ConstraintFields) -> wire.Constraint:
    """What a kind does not depend on is left out, so that equal ones share what is compiled."""
    if source == ANY_OBJECT and kind == "json_schema":
        return any_object(fields)
    if kind in ("json_schema", "structural_tag"):
        return wire.Constraint(kind, source, fields.strict_schema, fields.json_whitespace)
    return wire.Constraint(kind, source)


def _pattern(pattern: str | None, caps: ConstraintsConfig) -> str | None:
    return _text(pattern, "regex", caps.max_pattern_bytes)


def _text(text: str | None, param: str, max_bytes: int) -> str | None:
    if text is None:
        return None
    if not text:
        raise InvalidRequest("is empty", param)
    _check_size(text, param, max_bytes)
    return text


def _schema(value: str | dict[str, Any] | None, caps: ConstraintsConfig) -> str | None:
    if value is None or value == ANY_OBJECT:
        return value
    return schema_json(_object(value, "json_schema", caps), "json_schema", caps)


def _tags(value: str | dict[str, Any] | None, caps: ConstraintsConfig) -> str | None:
    if value is None:
        return None
    param = "structural_tag"
    return bounded_json({"type": param, **_object(value, param, caps)}, param, caps)


def _choices(choices: list[str] | None, caps: ConstraintsConfig) -> str | None:
    if choices is None:
        return None
    if not 0 < len(choices) <= caps.max_enum_values:
        raise InvalidRequest(f"between 1 and {caps.max_enum_values} choices, got {len(choices)}", "choices")
    if not all(choices):
        raise InvalidRequest("an empty choice", f"choices.{choices.index('')}")
    if (index := first_repeated(choices)) is not None:
        raise InvalidRequest("this choice stands there twice", f"choices.{index}")
    source = msgspec.json.encode(choices).decode()
    _check_size(source, "choices", caps.max_source_bytes)
    return source


def _check_size(text: str, param: str, max_bytes: int) -> None:
    size = len(text.encode())
    if size > max_bytes:
        raise InvalidRequest(f"at most {max_bytes} bytes, got {size}", param)


def _object(value: str | dict[str, Any], param: str, caps: ConstraintsConfig) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    _check_size(value, param, caps.max_source_bytes)
    try:
        value = msgspec.json.decode(value)
    except RecursionError:
        raise InvalidRequest("nested too deeply", param) from None
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"not valid JSON: {error}", param) from None
    if not isinstance(value, dict):
        raise InvalidRequest("expected a JSON object", param)
    return value
