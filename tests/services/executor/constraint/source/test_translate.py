from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.translate import decoded, translate
from shared import wire
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_bytes import takes
from tests.services.executor.constraint.source.schema_mutants import JSON, mutants

CAPS = ConstraintsConfig()
TAGS = json.dumps(
    {
        "type": "structural_tag",
        "structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}],
        "triggers": ["<f"],
    }
)


@pytest.mark.parametrize(
    ("kind", "source", "taken", "not_taken"),
    [
        ("regex", r'{"a/b": "\d"}', '{"a/b": "1"}', '{"a/b": "x"}'),
        ("choices", '["yes", "no", "not"]', "no", "n"),
        ("ebnf", 'start: "a" b?\nb: "b/"', "ab/", "b"),
        ("ebnf", 'root ::= "a" b?\nb ::= "b/"', "ab/", "b"),
        ("json_schema", '{"type": "array", "items": {"type": "boolean"}}', "[true, false]", "[1]"),
        ("json_object", "", '{"a": [1]}', "[1]"),
        ("structural_tag", TAGS, "so <f>12</f> it is", "so <f>a</f>"),
    ],
)
def test_each_kind_has_its_grammar(kind: wire.ConstraintKind, source: str, taken: str, not_taken: str) -> None:
    grammar = translate(wire.Constraint(kind, source), CAPS)
    assert takes(grammar, taken)
    assert not takes(grammar, not_taken)


@pytest.mark.parametrize("kind", ["choices", "ebnf", "json_schema", "structural_tag"])
def test_sources_have_a_largest_size(kind: wire.ConstraintKind) -> None:
    with pytest.raises(Refused, match="10 bytes; at most 9"):
        translate(wire.Constraint(kind, '"éééé"'), ConstraintsConfig(max_source_bytes=9))


def test_a_pattern_has_its_own() -> None:
    assert translate(wire.Constraint("regex", "a" * 20), ConstraintsConfig(max_source_bytes=9))
    with pytest.raises(Refused, match="20 bytes; at most 19"):
        translate(wire.Constraint("regex", "a" * 20), ConstraintsConfig(max_pattern_bytes=19))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "line 1, column 1"),
        ('{"a": 1,\n}', "line 2, column 1"),
        ("[NaN]", "not JSON: NaN"),
        ("[-Infinity]", "not JSON: -Infinity"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "key 'b' twice"),
        ("[" * 100_000, "nested too deeply"),
        ("[" + "1" * 5000 + "]", "too long"),
    ],
)
def test_what_is_not_json_is_refused(source: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        decoded(source)
    assert reason in caught.value.message
    for kind in ("choices", "json_schema"):
        with pytest.raises(Refused):
            translate(wire.Constraint(kind, source), CAPS)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(), st.booleans())
def test_whatever_a_schema_is_it_has_a_grammar_or_is_refused(schema: Any, strict: bool) -> None:
    constraint = wire.Constraint("json_schema", json.dumps(schema), strict)
    with contextlib.suppress(Refused):
        assert json.loads(translate(constraint, CAPS)).keys() == {"grammars"}


@settings(deadline=None, max_examples=200)
@given(JSON, st.sampled_from(["json_schema", "choices", "structural_tag"]))
def test_whatever_else_is_sent_is_refused_or_has_a_grammar(source: Any, kind: wire.ConstraintKind) -> None:
    with contextlib.suppress(Refused):
        assert translate(wire.Constraint(kind, json.dumps(source)), CAPS)
