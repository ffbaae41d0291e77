"""Random schemas: whatever comes out is valid, and what is valid can come out."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from decimal import Decimal, localcontext
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.json_schema import grammar
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.schema_strings import writable
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source import engine_bytes
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


@FORMATS.checks("uuid4", raises=ValueError)
def _is_uuid4(value: object) -> bool:
    return not isinstance(value, str) or uuid.UUID(value).version == 4


@FORMATS.checks("base64", raises=ValueError)
def _is_base64(value: object) -> bool:
    return not isinstance(value, str) or base64.b64encode(base64.b64decode(value, validate=True)).decode() == value


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


CHARACTERS = st.sampled_from('\x00\x01\x07\x08\t\n\x0b\x0c\r\x1b\x1e\x1f "!\\\\]^ab~\x7f\x80é')
RANGES = st.tuples(CHARACTERS, CHARACTERS).map(lambda ends: "-".join(rf"\x{ord(end):02x}" for end in sorted(ends)))
SETS = st.tuples(st.sampled_from(["", "^"]), st.lists(RANGES, min_size=1, max_size=3).map("".join)).map("".join)


@SLOW
@given(SETS, st.text(CHARACTERS, max_size=3), st.integers(0, 2**32))
def test_a_set_in_a_pattern_takes_its_own_characters_alone(members: str, text: str, seed: int) -> None:
    schema = {"type": "string", "pattern": f"^[{members}]+$", "maxLength": 20}
    if not any(is_valid(schema, char) for char in map(chr, range(256)) if writable(char)):
        with pytest.raises(Refused, match="no string that can be written"):
            grammar(schema, strict=True, whitespace="fixed", caps=CAPS)
        return
    made = matcher(grammar(schema, strict=True, whitespace="fixed", caps=CAPS))
    if takes(made, dumps(text)):
        assert is_valid(schema, text)
    walked = walk(made, seed)
    assert walked is None or is_valid(schema, json.loads(walked))


BOUNDS = st.one_of(
    st.integers(-5, 5),
    st.integers(-(10**18), 10**18),
    st.integers(2**53 - 3, 2**53 + 3),
    st.floats(-1e18, 1e18),
    st.floats(-2, 2),
    st.sampled_from([0.1, 0.3, 1e6, 1e-9, 1e-12, 5e-324, 10**400]),
)
KEYWORDS = st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
STEPS = st.sampled_from([1, 3, 7, 0.5, 0.25, 2.5, 3.0, 10_000])


def written_near(bound: float) -> list[str]:
    exact = Decimal(bound)
    with localcontext(prec=60):
        near = [exact + Decimal(step) for step in ("0", "1", "-1", "1e-10", "-1e-10", "1e-17", "-1e-17")]
    return [format(value, "f") for value in near if abs(value) < 10**20]


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(KEYWORDS, BOUNDS), st.sampled_from(["number", "integer"]), st.none() | STEPS)
def test_numbers_near_a_bound_are_read_as_within(bounds: dict[str, float], kind: str, step: float | None) -> None:
    schema = {"type": kind, **bounds, **({} if step is None else {"multipleOf": step})}
    try:
        made = grammar(schema, strict=True, whitespace="fixed", caps=CAPS)
    except Refused:
        assume(False)
    assert engine_bytes.matcher(made).compute_bitmask().strip(b"\0")
    for text in [text for bound in bounds.values() for text in written_near(bound)]:
        assert not engine_bytes.takes(made, text) or is_valid(schema, json.loads(text)), text
