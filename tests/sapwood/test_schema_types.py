"""Whatever a server lets out for a type is a value of it: random walks through the grammars of its engine."""

import dataclasses
import datetime as dt
import decimal
import enum
import typing
import uuid
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from sapwood.errors import InvalidOutput, ProgramError
from sapwood.schemas import form_of_schema
from services.executor.constraint.source.json_schema import grammar
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_walks import matcher, walk

WALKS = 4


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Stay:
    since: dt.datetime
    price: decimal.Decimal
    length: dt.timedelta
    then: "Stay | None" = None


class Tagged(msgspec.Struct, tag=True):
    when: dt.time


class Listed(msgspec.Struct, array_like=True, tag=True):
    raw: bytes


class Pair(NamedTuple):
    when: dt.datetime
    naive: Annotated[dt.datetime, msgspec.Meta(tz=False)]


class Options(TypedDict, total=False):
    names: dict[int, str]
    at: dict[uuid.UUID, dt.datetime]


class Inner(pydantic.BaseModel):
    x: int


@dataclasses.dataclass
class Outer:
    inner: Inner


@pydantic.dataclasses.dataclass
class Bounded:
    a: int = pydantic.Field(ge=3, le=5)


TYPES = [
    Stay,
    Tagged | int | None,
    list[Listed],
    Pair,
    Options,
    bytes,
    dt.datetime | None,
    list[dt.datetime | int],
    tuple[dt.time, dt.timedelta],
    tuple[dt.datetime, ...],
    Annotated[dt.time, msgspec.Meta(tz=False)],
    dict[int, dt.datetime],
    dict[float, int],
    dict[Number, int],
    dict[dt.date, int],
    set[int],
    frozenset[Number],
    decimal.Decimal,
]
MODELS = [
    Inner,
    Bounded,
    Outer,
    list[Inner],
    Inner | None,
    dict[str, Inner],
    Inner | Bounded,
    pydantic.RootModel[list[int]],
]
FIELDS = [
    set[int],
    decimal.Decimal,
    Annotated[decimal.Decimal, pydantic.Field(ge=0, le=9)],
    dt.timedelta,
    pydantic.NaiveDatetime,
    pydantic.AwareDatetime,
    pydantic.PastDatetime,
    pydantic.PastDate,
    pydantic.FutureDate,
    pydantic.HttpUrl,
    dict[int, str],
    dict[uuid.UUID, int],
    dt.time,
    bytes,
]


def outputs(of: Any) -> list[Any]:
    form = form_of_schema(of)
    schema = msgspec.json.decode(form.json_schema)
    made = matcher(grammar(schema, strict=True, whitespace="fixed", caps=ConstraintsConfig()))
    texts = [walk(made, seed) for seed in range(WALKS)]
    return [form.read(text) for text in texts if text is not None]


@pytest.mark.parametrize("of", [*TYPES, *MODELS], ids=str)
def test_types(of: Any) -> None:
    assert outputs(of)


@pytest.mark.parametrize("of", FIELDS, ids=str)
def test_fields_of_models(of: Any) -> None:
    assert outputs(pydantic.create_model("Model", field=(of, ...)))


@pytest.mark.parametrize("of", [typing.Callable, pydantic.create_model("M", f=(typing.Callable, ...)), 5, []])
def test_what_no_text_is(of: Any) -> None:
    with pytest.raises(ProgramError, match="json_schema"):
        form_of_schema(of)


class Picky(pydantic.BaseModel):
    a: int

    @pydantic.field_validator("a")
    @classmethod
    def check(cls, value: int) -> int:
        raise TypeError("never")


def test_whatever_a_check_raises_of_a_value_the_output_is_invalid() -> None:
    with pytest.raises(InvalidOutput, match="never"):
        form_of_schema(Picky).read('{"a": 1}')
