"""Schemas as clients may send them: with a part of them gone, or something else in its place."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from services.executor.constraint.source.schema_keywords import KNOWN
from tests.services.executor.constraint.source.json_schemas import PAIRS

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1e308, -1e-320, 2**64, 10**400, 0.5, 1.0, float("nan"), float("inf")]),
    st.sampled_from(
        ["", "a", "#", "#/$defs/a", "#x", "http://a", "string", "object", "date", "(", "(?=a)", "^(a+)+$", "\ud800"]
    ),
    st.sampled_from(sorted(KNOWN)),
)
KEYS = st.one_of(st.sampled_from(sorted(KNOWN)), st.sampled_from(["a", "b", "nullable", "x-guidance", "(", ""]))
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
Place = tuple[Any, Any]  # an object or array, and a key of it


def places(value: Any) -> Iterator[Place]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, item in items:
        yield value, key
        yield from places(item)


SCHEMAS: st.SearchStrategy[Any] = PAIRS.map(lambda pair: pair[0])


@st.composite
def mutants(draw: st.DrawFn, schemas: st.SearchStrategy[Any] = SCHEMAS) -> Any:
    schema = deepcopy(draw(schemas))
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(schema))
        if not found:
            return draw(JSON)
        holder, key = draw(st.sampled_from(found))
        match draw(st.sampled_from(["gone", "other", "beside"])):
            case "gone":
                del holder[key]
            case "other":
                holder[key] = draw(JSON)
            case _:
                _put(holder, draw(KEYS), draw(JSON))
    return schema


def _put(holder: Any, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder.append(value)
