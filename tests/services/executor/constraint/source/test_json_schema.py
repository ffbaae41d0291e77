"""Random schemas: whatever comes out is valid, and what is valid can come out."""

from __future__ import annotations

import datetime
import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.json_schema import grammar
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_walks import matcher, takes, walk
from tests.services.executor.constraint.source.json_schemas import PAIRS, Pair, dumps

CAPS = ConstraintsConfig()
FORMATS = jsonschema.FormatChecker()
SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@FORMATS.checks("time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.time.fromisoformat(value[:8]) is not None


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.datetime.fromisoformat(value[:19]) is not None


def is_valid(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema, format_checker=FORMATS).is_valid(value))


def first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


@SLOW
@given(PAIRS, st.integers(0, 2**32), st.sampled_from(["fixed", "flexible"]))
def test_what_comes_out_is_valid(pair: Pair, seed: int, whitespace: Any) -> None:
    schema = pair[0]
    text = walk(matcher(grammar(schema, strict=True, whitespace=whitespace, caps=CAPS)), seed)
    assume(text is not None)
    assert text is not None
    for value in (json.loads(text), json.loads(text, object_pairs_hook=first_wins)):
        assert is_valid(schema, value), (schema, text)
    if whitespace == "fixed":
        assert " " not in text or text == text.strip()


@SLOW
@given(PAIRS, st.data())
def test_what_is_valid_can_come_out(pair: Pair, data: st.DataObject) -> None:
    schema, values = pair
    value = data.draw(values)
    assert is_valid(schema, value), (schema, value)
    made = matcher(grammar(schema, strict=True, whitespace="fixed", caps=CAPS))
    assert takes(made, dumps(value)), (schema, dumps(value))


@settings(deadline=None, max_examples=60)
@given(PAIRS, st.sampled_from(["uniqueItems", "if", "not", "contains", "no such keyword"]))
def test_relaxed_is_the_same_schema_without_what_cannot_be_enforced(pair: Pair, keyword: str) -> None:
    schema = pair[0] if isinstance(pair[0], dict) else {}
    with_it = {**schema, keyword: True, "type": schema.get("type", "object")}
    without = {**schema, "type": schema.get("type", "object")}
    results = []
    for given_schema in (with_it, without):
        try:
            results.append(grammar(given_schema, strict=False, whitespace="fixed", caps=CAPS))
        except Refused as refused:
            results.append(refused.message)
    assert results[0] == results[1]
