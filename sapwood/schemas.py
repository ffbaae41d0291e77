"""What a typed output is: the constraint to ask for, and the way from its text to the value. Knows no request.

A type may be one of msgspec's, a dataclass, a TypedDict, a list or a union of such (msgspec reads them), or a pydantic
model, which is told by its own methods: pydantic is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from sapwood.errors import InvalidOutput, ProgramError

# A number in running text ends by what follows it, which is cut: a model that may write digits alone writes all it may.
INTEGER = r"-?(0|[1-9][0-9]{0,17})"
AFTER_INTEGER = r"[ \n,;:.)]"
NUMBER = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?"
AFTER_NUMBER = r"[ \n,;:)]"
REST = "{1,4}.{0,16}"  # of the token in which it ends
QUOTED = r'"[^"\\\n]{0,400}"'


MAPS = ("properties", "$defs")  # of names to schemas
INNER = ("items", "prefixItems", "anyOf", "oneOf", "additionalProperties")  # a schema or a list of them


class Form(NamedTuple):
    """At most one of `regex` and `json_schema`."""

    read: Callable[[str], Any]
    regex: str | None = None
    stop_regex: str | None = None
    json_schema: str | None = None
    type: Any = None  # of the value; None: it is the text


DTYPES: dict[type, Form] = {
    int: Form(int, f"{INTEGER}({AFTER_INTEGER}{REST})?", AFTER_INTEGER, type=int),
    float: Form(float, f"{NUMBER}({AFTER_NUMBER}{REST})?", AFTER_NUMBER, type=float),
    bool: Form({"True": True, "False": False}.__getitem__, "True|False", type=bool),
    str: Form(lambda text: text[1 : text.rindex('"', 1)], QUOTED, type=str),
}


def form_of_dtype(dtype: type) -> Form:
    if dtype not in DTYPES:
        raise ProgramError(f"dtype is int, float, bool or str, not {dtype!r}; for others there is json_schema")
    return _checked(DTYPES[dtype], dtype.__name__)


def form_of_schema(schema: Any) -> Form:
    """Of a type, the value is an instance of it; of a schema, as JSON text or a mapping, the text."""
    match schema:
        case str():
            return Form(str, json_schema=schema)
        case Mapping():
            return Form(str, json_schema=msgspec.json.encode(schema).decode())
        case _ if hasattr(schema, "model_json_schema"):
            return _form(schema.model_json_schema(), schema.model_validate_json, schema)
        case _:
            return _form(_msgspec_schema(schema), msgspec.json.Decoder(schema).decode, schema)


def _form(schema: dict[str, Any], read: Callable[[str], Any], of: Any) -> Form:
    text = msgspec.json.encode(_closed(schema)).decode()
    return _checked(Form(read, json_schema=text, type=of), getattr(of, "__name__", str(of)))


def _closed(schema: Any) -> Any:
    """The same without members that the type does not name: it would drop them, and a model may go on inventing."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed: dict[str, Any] = {} if "properties" not in schema else {"additionalProperties": False}
    for key, value in schema.items():
        if key in MAPS:
            closed[key] = {name: _closed(each) for name, each in value.items()}
        else:
            closed[key] = _closed(value) if key in INNER else value
    return closed


def _checked(form: Form, name: str) -> Form:
    def read(text: str) -> Any:
        try:
            return form.read(text)
        except (ValueError, KeyError) as error:  # msgspec's and pydantic's errors are ValueErrors
            raise InvalidOutput(f"the output is no {name}: {error}", text) from error

    return form._replace(read=read)


def _msgspec_schema(schema: Any) -> dict[str, Any]:
    try:
        return msgspec.json.schema(schema)
    except TypeError as error:
        raise ProgramError(f"json_schema takes a schema or a type that has one: {error}") from error
