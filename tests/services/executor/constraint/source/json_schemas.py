"""Random JSON schemas of what is enforced, each with a strategy for values of it, in the order that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Pair = tuple[Any, st.SearchStrategy[Any]]  # a schema and values of it

WORDS = st.sampled_from(
    ["a", "b", "naïve", "x y", 'q"q', "back\\slash", "tab\t", "名", "😀", "</s>", "<|im_end|", "é" * 5]
)
NAMES = ["a", "b", "id", "name", 'q"', "é", "a b", "$ref", ""]
PATTERNS = {
    "^[a-c]{2,4}$": ["ab", "cccc"],
    "[0-9]": ["7", "x5y"],
    "^é|ü$": ["éa", "aü"],
    r"^\w+\.\d$": ["a_b.3"],
    '"': ['"'],
}
FORMATS = {
    "date": ["2024-02-29", "1999-12-31"],
    "time": ["23:59:59Z", "01:02:03.5+01:00"],
    "date-time": ["2024-02-29T23:59:59Z"],
    "duration": ["P1Y2M", "PT5M", "P3W"],
    "email": ["a.b+c@d-e.org"],
    "hostname": ["a.b-c.org"],
    "ipv4": ["1.20.255.0"],
    "ipv6": ["::1", "1:2:3:4:5:6:7:8", "fe80::1:2"],
    "uri": ["https://a.b/c?d=e#f", "mailto:a@b.c"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "base64": ["", "YQ==", "YWI=", "YWJj"],
}


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    """With as many digits as any bound here: the engine leaves out some shorter ones that begin like a bound."""
    digits = st.integers(int(low * 100_000) + 1, int(high * 100_000) - 1)
    return digits.map(lambda value: float(Decimal(value) / 100_000 + Decimal("0.000003")))


@st.composite
def integer(draw: st.DrawFn) -> Pair:
    low, span = draw(st.integers(-1200, 1200)), draw(st.integers(0, 400))
    step = draw(st.sampled_from([1, 1, 1, 3, 7]))
    high = low + span + step
    schema = {"type": "integer", "minimum": low, "maximum": high}
    values = st.integers(-(-low // step), high // step).map(lambda value: value * step)
    return ({**schema, "multipleOf": step} if step > 1 else schema), values


@st.composite
def number(draw: st.DrawFn) -> Pair:
    low = draw(st.sampled_from([-1000.5, -1, 0, 0.1, 2.5, 1e-5, 33.0]))
    high = low + draw(st.sampled_from([0.5, 1, 10, 12.25, 1e6]))
    keywords = {"exclusiveMinimum": low} if draw(st.booleans()) else {"minimum": low}
    keywords |= {"exclusiveMaximum": high} if draw(st.booleans()) else {"maximum": high}
    return {"type": "number", **keywords}, numbers(low + 0.01, high - 0.01)


@st.composite
def sized(draw: st.DrawFn) -> Pair:
    low = draw(st.integers(0, 3))
    high = low + draw(st.integers(0, 4))
    return {"type": "string", "minLength": low, "maxLength": high}, st.text('aé😀\\"\n', min_size=low, max_size=high)


@st.composite
def matching(draw: st.DrawFn) -> Pair:
    keyword, table = draw(st.sampled_from([("pattern", PATTERNS), ("format", FORMATS)]))
    value = draw(st.sampled_from(sorted(table)))
    return {"type": "string", keyword: value}, st.sampled_from(table[value])


LISTED = [None, True, False, 0, 1, -3, 1.5, 1e-5, "a", "é😀", 'q"\n', [], [1, "x"], {}, {"b": 1, "a": None}]


@st.composite
def listed(draw: st.DrawFn) -> Pair:
    values = draw(st.lists(st.sampled_from(LISTED), min_size=1, max_size=5))
    return ({"const": values[0]} if len(values) == 1 else {"enum": values}), st.sampled_from(values)


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | numbers(-1e6, 1e6) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
LEAVES: st.SearchStrategy[Pair] = st.one_of(
    integer(),
    number(),
    sized(),
    matching(),
    listed(),
    st.sampled_from([({}, ANYTHING), (True, ANYTHING), ({"title": "any", "description": "x"}, ANYTHING)]),
    st.just(({"type": "string"}, WORDS)),
    st.just(({"type": ["integer", "null"]}, st.none() | st.integers(-(10**15), 10**15))),
    st.just(({"type": "boolean"}, st.booleans())),
    st.just(({"type": "number"}, numbers(-1e6, 1e6))),
)


def arrays(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    @st.composite
    def array(draw: st.DrawFn) -> Pair:
        prefix, rest = draw(st.lists(inner, max_size=2)), draw(st.none() | st.just(False) | inner)
        low = draw(st.integers(0, len(prefix)))
        high = len(prefix) + (0 if rest is False else draw(st.integers(0, 2)))
        schema: dict[str, Any] = {"type": "array", "minItems": low, "maxItems": high}
        if prefix:
            schema["prefixItems"] = [item for item, _ in prefix]
        if rest is not None:
            schema["items"] = rest if rest is False else rest[0]
        tail = ANYTHING if rest is None or rest is False else rest[1]
        places = [values for _, values in prefix] + [tail] * (high - len(prefix))
        return schema, st.integers(low, high).flatmap(lambda size: st.tuples(*places[:size]).map(list))

    return array()


def objects(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    @st.composite
    def object_(draw: st.DrawFn) -> Pair:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
        properties = {name: draw(inner) for name in names}
        required = [name for name in names if draw(st.booleans())]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: pair[0] for name, pair in properties.items()},
            "required": required,
        }
        extra = draw(st.none() | st.just(False) | inner)
        if extra is not None:
            schema["additionalProperties"] = extra if extra is False else extra[0]
        others = st.just({})
        if extra is not False:
            others = st.dictionaries(WORDS.map("other {}".format), ANYTHING if extra is None else extra[1], max_size=2)
        return schema, _written(properties, required, others)

    return object_()


def _written(
    properties: dict[str, Pair], required: list[str], others: st.SearchStrategy[dict[str, Any]]
) -> st.SearchStrategy[Any]:
    @st.composite
    def written(draw: st.DrawFn) -> Any:
        named = {
            name: draw(values) for name, (_, values) in properties.items() if name in required or draw(st.booleans())
        }
        return {**named, **draw(others)}

    return written()


def choices(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def chosen(pairs: list[Pair]) -> Pair:
        return {"anyOf": [schema for schema, _ in pairs]}, st.one_of(*(values for _, values in pairs))

    return st.lists(inner, min_size=1, max_size=3).map(chosen)


def together(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """`allOf` of two objects that speak of different properties."""

    @st.composite
    def both(draw: st.DrawFn) -> Pair:
        one, other = draw(inner), draw(inner)
        schema = {
            "allOf": [
                {"type": "object", "properties": {"one": one[0]}, "required": ["one"]},
                {"properties": {"other": other[0]}, "required": ["other"], "additionalProperties": True},
            ]
        }
        return schema, st.tuples(one[1], other[1]).map(lambda values: {"one": values[0], "other": values[1]})

    return both()


def _containers(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(arrays(inner), objects(inner), objects(inner), choices(inner), together(inner), wrapped(inner))


def wrapped(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """With a second schema beside it that asks for nothing, or for what it does anyway."""
    beside: list[Callable[[Any], Any]] = [
        lambda schema: {"allOf": [schema]},
        lambda schema: {"allOf": [schema, True, {}]},
        lambda schema: {"anyOf": [schema, False]},
        lambda schema: {"oneOf": [schema]},
        lambda schema: {"allOf": [schema], "title": "t", "default": 1},
    ]
    return st.tuples(inner, st.sampled_from(beside)).map(lambda pair: (pair[1](pair[0][0]), pair[0][1]))


PAIRS: st.SearchStrategy[Pair] = st.recursive(LEAVES, _containers, max_leaves=6)


def dumps(value: Any) -> str:
    """As Python's json.dumps, with all characters as they are and numbers without exponents."""
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return text.removesuffix(".0") if text.endswith(".0") else text
    if isinstance(value, list):
        return f"[{', '.join(dumps(item) for item in value)}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{json.dumps(key, ensure_ascii=False)}: {dumps(item)}' for key, item in value.items())}}}"
        )
    return json.dumps(value, ensure_ascii=False)
