"""What a typed output is: the constraint to ask for, and the way from its text to the value. Knows no request.

msgspec reads its own structs, dataclasses, TypedDicts, lists and unions of such. pydantic reads its models, and what
holds them; it is imported only where the program has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from sapwood.errors import InvalidOutput, ProgramError
from sapwood.schema_msgspec import schema_of
from sapwood.schema_texts import INTEGER, NUMBER

# A number in running text ends by what follows it, which is cut: a model that may write digits alone writes all it may.
AFTER_INTEGER = r"[ \n,;:.)]"
AFTER_NUMBER = r"[ \n,;:)]"
REST = "{1,4}.{0,16}"  # of the token in which it ends
QUOTED = r'"[^"\\\n]{0,400}"'

MAPS = ("properties", "$defs")  # of names to schemas
INNER = ("items", "prefixItems", "anyOf", "oneOf", "additionalProperties")  # a schema or a list of them
UNREADABLE = (ValueError, KeyError, TypeError, ArithmeticError)  # also of a type's own checks


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
        case _:
            return _form_of_type(schema)


def _form_of_type(of: Any) -> Form:
    """What msgspec does not read, pydantic may."""
    try:
        if hasattr(of, "__pydantic_validator__"):
            return _form_of_pydantics(of)
        try:
            return _form(schema_of(of), msgspec.json.Decoder(of).decode, of)
        except TypeError:
            if "pydantic" not in sys.modules:
                raise
            return _form_of_pydantics(of)
    except (TypeError, ValueError, RuntimeError, NameError) as error:  # of either library
        raise ProgramError(f"json_schema takes a schema or a type that has one: {error}") from error


def _form_of_pydantics(of: Any) -> Form:
    import pydantic

    from sapwood.schema_pydantic import Narrowed

    adapter = pydantic.TypeAdapter(of)
    return _form(adapter.json_schema(schema_generator=Narrowed), adapter.validate_json, of)


def _form(schema: dict[str, Any], read: Callable[[str], Any], of: Any) -> Form:
    text = msgspec.json.encode(_closed(schema)).decode()
    return _checked(Form(read, json_schema=text, type=of), getattr(of, "__name__", str(of)))


def _closed(schema: Any) -> Any:
    """The same without members that the type does not name: it would drop them, and a model may go on inventing.

    Nor is anything unique: no server can hold a model to that, and a set takes a thing twice.
    """
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed: dict[str, Any] = {} if "properties" not in schema else {"additionalProperties": False}
    for key, value in schema.items():
        if key == "uniqueItems":
            pass
        elif key in MAPS:
            closed[key] = {name: _closed(each) for name, each in value.items()}
        else:
            closed[key] = _closed(value) if key in INNER else value
    return closed


def _checked(form: Form, name: str) -> Form:
    def read(text: str) -> Any:
        try:
            return form.read(text)
        except UNREADABLE as error:
            raise InvalidOutput(f"the output is no {name}: {error}", text) from error

    return form._replace(read=read)
