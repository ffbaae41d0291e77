import re
from dataclasses import dataclass
from typing import Literal

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import function, gen
from sapwood.errors import InvalidOutput, ProgramError
from sapwood.schema_texts import INTEGER, NUMBER
from sapwood.schemas import form_of_dtype, form_of_schema
from tests.support.fake_backend import FakeBackend


@dataclass
class Point:
    x: int
    kind: Literal["a", "b"] = "a"


class Place(msgspec.Struct):
    points: list[Point]


class Town(pydantic.BaseModel):
    name: str
    size: int | None = None


def test_a_dataclass_within_a_struct():
    form = form_of_schema(Place)
    assert form.read('{"points": [{"x": 1, "kind": "b"}]}') == Place([Point(1, "b")])
    assert "points" in form.json_schema


def test_a_pydantic_model():
    assert form_of_schema(Town).read('{"name": "Ulm"}') == Town(name="Ulm")


class Open(pydantic.BaseModel, extra="allow"):
    properties: list[Town]  # a name that is a keyword, too


def test_what_a_type_does_not_name_is_not_asked_for():
    schema = msgspec.json.decode(form_of_schema(Open).json_schema)
    assert schema["additionalProperties"] is True
    assert schema["properties"].keys() == {"properties"}
    assert schema["$defs"]["Town"]["additionalProperties"] is False
    place = msgspec.json.decode(form_of_schema(Place).json_schema)
    assert [each["additionalProperties"] for each in place["$defs"].values()] == [False, False]


def test_a_plain_type():
    assert form_of_schema(list[int]).read("[1, 2]") == [1, 2]


@pytest.mark.parametrize("schema", ['{"type": "object"}', {"type": "object"}])
def test_of_a_schema_the_value_is_the_text(schema):
    form = form_of_schema(schema)
    assert msgspec.json.decode(form.json_schema) == {"type": "object"}
    assert form.read("{ }") == "{ }"


@pytest.mark.parametrize(("of", "text"), [(Place, '{"points": ['), (Town, '{"name": 5}'), (Town, "")])
def test_what_is_cut_or_wrong(of, text):
    with pytest.raises(InvalidOutput) as raised:
        form_of_schema(of).read(text)
    assert raised.value.text == text
    assert of.__name__ in str(raised.value)


@given(st.integers(-(10**17), 10**17))
def test_integers(number):
    assert re.fullmatch(INTEGER, str(number))
    assert form_of_dtype(int).read(str(number)) == number


@given(st.decimals(-(10**9), 10**9, places=4))
def test_numbers(number):
    assert re.fullmatch(NUMBER, f"{number:f}")
    assert form_of_dtype(float).read(f"{number:f}") == float(number)


def test_truth_and_text():
    assert form_of_dtype(bool).read("False") is False
    assert form_of_dtype(str).read('"a b"') == "a b"
    with pytest.raises(InvalidOutput):
        form_of_dtype(bool).read("Fal")
    with pytest.raises(InvalidOutput):
        form_of_dtype(str).read('"a')


def test_other_types_are_refused():
    with pytest.raises(ProgramError, match="json_schema"):
        form_of_dtype(list)


@pytest.mark.parametrize("dtype", [int, float])
def test_a_number_may_be_followed_by_what_it_ends_by(dtype):
    form = form_of_dtype(dtype)
    for after in ("", " apples", "\n\nThe", ", and", ") or"):
        text = f"12{after}"
        assert re.fullmatch(form.regex, text)
        assert re.split(form.stop_regex, text)[0] == "12"
    for text in ("12a", " 12", "12-3", "1" * 19):
        assert not re.fullmatch(form.regex, text)


def test_the_end_of_a_number_is_one_more_stop():
    backend = FakeBackend()
    function(lambda s: s.__iadd__(gen("x", dtype=int, stop_regex="b", stop="a"))).run(backend=backend)
    (request,) = backend.requests
    assert request.sampling.stop_regex == ("b", form_of_dtype(int).stop_regex)
    assert request.sampling.stop == ("a",)
