"""What a listed value is held to, against a validator."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.json_schema import prepared
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.schema_disjoint import canonical
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.json_schemas import PAIRS, Pair
from tests.services.executor.constraint.source.schema_mutants import mutants
from tests.services.executor.constraint.source.test_json_schema import is_valid

CAPS = ConstraintsConfig()
SETTINGS = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


def kept(schema: Any, values: list[Any]) -> set[str]:
    """Of the values, where the schema stands beside them."""
    try:
        made = prepared({"enum": values, "allOf": [schema]}, strict=True, whitespace="fixed", caps=CAPS)
    except Refused as refused:
        assume(refused.message == "none of the listed values is valid")
        return set()
    return set(map(canonical, made["enum"]))


@SETTINGS
@given(PAIRS, PAIRS, st.data())
def test_values_are_kept_where_a_validator_says_so(one: Pair, other: Pair, data: st.DataObject) -> None:
    values = [data.draw(one[1]), data.draw(other[1])]
    assert kept(one[0], values) == {canonical(value) for value in values if is_valid(one[0], value)}


@SETTINGS
@given(st.shared(PAIRS), mutants(st.shared(PAIRS).map(lambda pair: pair[0])), st.data())
def test_also_with_schemas_that_are_not_quite_theirs(pair: Pair, mutant: Any, data: st.DataObject) -> None:
    value = data.draw(pair[1])
    assume("$id" not in json.dumps(mutant))
    assert kept(mutant, [value]) == {canonical(one) for one in [value] if is_valid(mutant, one)}
