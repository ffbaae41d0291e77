from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema.exceptions import SchemaError

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.schema_shape import check_schema
from tests.services.executor.constraint.source.schema_mutants import JSON, KEYS, mutants

FLAT = st.dictionaries(KEYS, JSON, max_size=3)


def is_schema(value: Any) -> bool:
    try:
        check_schema(value)
    except Refused:
        return False
    return True


@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(FLAT, mutants()))
def test_it_is_a_schema_where_the_metaschema_says_so(schema: Any) -> None:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except SchemaError:
        assert not is_schema(schema)
    else:
        assert is_schema(schema)


@pytest.mark.parametrize(
    ("schema", "path", "rule"),
    [
        (5, (), "object, true or false"),
        ({"properties": {"a": {"required": True}}}, ("properties", "a", "required"), "array of strings"),
        ({"allOf": [{}, {"type": ["string", "strin"]}]}, ("allOf", 1, "type"), "one of array, boolean"),
        ({"patternProperties": {"(": {}}}, ("patternProperties", "("), "position 0"),
        ({"$defs": {"a": {"exclusiveMinimum": True}}}, ("$defs", "a", "exclusiveMinimum"), "a number"),
        ({"pattern": "a{99999999999}"}, ("pattern",), "too large"),
    ],
)
def test_the_place_and_the_rule_are_named(schema: Any, path: tuple[str | int, ...], rule: str) -> None:
    with pytest.raises(Refused, match=rule) as caught:
        check_schema(schema)
    assert caught.value.path == path
