"""Models as pydantic describes them: what comes out is valid; the few that are refused are so for a stated reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.json_schema import grammar
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_walks import matcher, walk
from tests.services.executor.constraint.source.pydantic_schemas import REFUSED, TAKEN
from tests.services.executor.constraint.source.schema_mutants import mutants
from tests.services.executor.constraint.source.test_json_schema import is_valid

CAPS = ConstraintsConfig()


def made(schema: Any, *, strict: bool = True) -> str:
    return grammar(schema, strict=strict, whitespace="fixed", caps=CAPS)


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN)
def test_whatever_comes_out_is_valid(schema: Any) -> None:
    started = matcher(made(schema))
    texts = [walk(started, seed) for seed in range(5)]
    assert any(texts)
    for text in texts:
        assert text is None or is_valid(schema, json.loads(text)), text


@pytest.mark.parametrize(("schema", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_kept_is_refused_or_left_to_the_model(schema: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        made(schema)
    matcher(made(schema, strict=False))


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(st.sampled_from(list(TAKEN.values()))), st.integers(0, 2**32))
def test_what_is_made_of_one_is_refused_or_kept_as_well(schema: Any, seed: int) -> None:
    try:
        text = walk(matcher(made(schema)), seed, most=100)
    except Refused:
        return
    assert text is None or is_valid(schema, json.loads(text)), text
