from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from services.gateway.errors import InvalidRequest, within
from services.gateway.schemas.decode import FieldRules, convert, decode_object


class Inner(msgspec.Struct):
    depth: int


class Fields(msgspec.Struct):
    size: Annotated[int, Meta(ge=1)]
    ratio: float = 1.0
    names: list[str] = []
    inner: Inner | None = None


class Kinds(msgspec.Struct):
    size: int
    kind: Literal["a", "b"]


RULES = FieldRules(frozenset({"user"}), {"count": (1,), "later": (), "format": ({"type": "text"},)})


def refusal(raw, rules=RULES):
    with pytest.raises(InvalidRequest) as caught:
        convert(raw, Fields, rules)
    return caught.value.error


@pytest.mark.parametrize(
    ("body", "param", "problem"),
    [
        (b"", None, "the body is empty"),
        (b'{"a": {"b": [1, NaN]}}', "a.b.1", "not a finite number"),
        (b'{"a": -Infinity}', "a", "not a finite number"),
        (b'{"a": 1e400}', "a", "not a finite number"),
        (b'{"a": ["x", "\\ud800"]}', "a.1", "a lone surrogate is no character"),
        (b'{"a": {"\\udfff": 1}}', "a", "a lone surrogate is no character"),
        (b'{"\\ud800": NaN}', None, "a lone surrogate is no character"),
        (b'{"' + b"a" * 500 + b'": NaN}', "a" * 128, "not a finite number"),
        (b'{"a": NaN, "b": ' + b"[" * 100_000 + b"]}", None, "the body is not valid JSON"),
        (b'{"a": NaN, "b": "' + b"x" * 65536 + b'"}', None, "the body is not valid JSON"),
    ],
)
def test_what_python_takes_for_json_is_named(body, param, problem):
    with pytest.raises(InvalidRequest) as caught:
        decode_object(body)
    error = caught.value.error
    assert (error.code, error.param) == ("invalid_json", param)
    assert problem in error.message
    msgspec.json.encode(error)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"size": }',
        b'{"size": NaN}',
        b'{"size": Infinity}',
        b'{"size": 1e999}',
        b'{"size": 1} trailing',
        b'{"size": ' + b"9" * 5000 + b"}",
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',  # a surrogate in bytes
        b'{"text": "\\ud800"}',  # one in an escape
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"[1]",
        b'"text"',
        b"null",
        b"1",
    ],
)
def test_what_is_no_object_in_json_is_refused(body):
    with pytest.raises(InvalidRequest) as caught:
        decode_object(body)
    assert caught.value.error.status == 400


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ({}, "size"),
        ({"size": None}, "size"),
        ({"size": "1"}, "size"),
        ({"size": True}, "size"),
        ({"size": 1.5}, "size"),
        ({"size": 0}, "size"),
        ({"size": 2**70, "ratio": "x"}, "ratio"),
        ({"size": 1, "ratio": False}, "ratio"),
        ({"size": 1, "names": ["a", 2]}, "names.1"),
        ({"size": 1, "names": "a"}, "names"),
        ({"size": 1, "inner": {"depth": "x"}}, "inner.depth"),
        ({"size": 1, "inner": {}}, "inner.depth"),
    ],
)
def test_a_refusal_names_the_parameter(raw, param):
    assert refusal(raw).param == param


def test_what_is_quoted_of_a_body_is_short_and_cannot_pose_as_a_path():
    error = refusal({"size": 1, "x" * 1_000_000: 1})
    assert len(error.message) < 300
    kinds = {"size": 1, "kind": "x" * 1_000_000 + " - at `$.other`"}
    with pytest.raises(InvalidRequest) as caught:
        convert(kinds, Kinds)
    assert caught.value.error.param == "kind"
    assert len(caught.value.error.message) < 300


def test_null_counts_as_absent():
    assert convert({"size": 2, "ratio": None, "names": None, "later": None, "user": None}, Fields, RULES) == Fields(2)


def test_an_unknown_field_is_refused_with_the_nearest_known_one():
    error = refusal({"size": 1, "raito": 1})
    assert (error.param, error.code) == ("raito", "unknown_parameter")
    assert error.message == "raito: unknown field; did you mean 'ratio'?"


def test_an_unknown_field_that_is_like_no_other_is_compared_with_none():
    assert refusal({"size": 1, "foo": 1}).message == "foo: unknown field"


def test_what_is_none_of_the_choices_is_told_them():
    with pytest.raises(InvalidRequest) as caught:
        convert({"size": 1, "kind": "c"}, Kinds)
    assert caught.value.error.message == "kind: invalid enum value 'c'; one of a, b"


@pytest.mark.parametrize("raw", [{"user": {"any": ["thing"]}}, {"count": 1}, {"format": {"type": "text"}}])
def test_harmless_fields_and_neutral_values_pass(raw):
    assert convert({"size": 1, **raw}, Fields, RULES) == Fields(1)


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        ({"count": 2}, "count"),
        ({"count": True}, "count"),  # is not 1
        ({"count": 1.0}, "count"),
        ({"later": ""}, "later"),
        ({"format": {"type": "text", "more": 1}}, "format"),
    ],
)
def test_what_is_not_there_yet_is_refused(raw, param):
    error = refusal({"size": 1, **raw})
    assert (error.param, error.code) == (param, "unsupported_parameter")


def test_paths_grow_from_the_inside_out():
    with pytest.raises(InvalidRequest) as caught, within("outer"), within("list.3"):
        convert({"size": "x"}, Fields)
    assert caught.value.error.param == "outer.list.3.size"
    assert caught.value.error.message == "outer.list.3.size: expected int, got str"
    with pytest.raises(InvalidRequest) as caught, within("outer"):
        convert([], Fields)
    assert caught.value.error.param == "outer"
