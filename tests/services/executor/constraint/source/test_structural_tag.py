"""Structural tags: text runs free until a trigger, and from there nothing but a whole tag will do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.structural_tag import grammar
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source import engine_bytes
from tests.services.executor.constraint.source.engine_walks import bundled_tokenizer, matcher, takes, walk

CAPS = ConstraintsConfig()
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ONE = '<tool_call>\n{"name": "get", "arguments": {"city": "x"}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "get_x", "arguments": 12}\n</tool_call>'


def tag(name: str, schema: Any, **options: Any) -> dict[str, Any]:
    return {
        "begin": f'<tool_call>\n{{"name": "{name}", "arguments": ',
        "content": {"type": "json_schema", "json_schema": schema, **options},
        "end": "}\n</tool_call>",
    }


TAGS = [tag("get", CITY), tag("get_x", {"type": "integer"})]


def of_format(**form: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": form}


def triggered(**options: Any) -> dict[str, Any]:
    return of_format(**{"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": TAGS, **options})


def legacy(schema: Any, **changes: Any) -> dict[str, Any]:
    structures = [{"begin": "<f>", "schema": schema, "end": "</f>"}]
    return {"type": "structural_tag", "structures": structures, "triggers": ["<f"], **changes}


def made(source: Any, **options: Any) -> LLMatcher:
    return matcher(grammar(json.dumps(source), **{"strict": True, "whitespace": "fixed", "caps": CAPS, **options}))


CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "free": (
        triggered(),
        ["", "hi", ONE, f"hi {ONE} and {OTHER} bye", "a<tool_call", "日本 é", f"<tool_{ONE}", f"<{OTHER}"],
        ["<tool_call>", "x<tool_call>y", f"{ONE}<tool_call>", "<<tool_call>"],
    ),
    "one at most": (triggered(stop_after_first=True), ["x", f"x{ONE}", ONE], [f"{ONE}x", ONE + OTHER]),
    "at least one": (
        triggered(at_least_one=True),
        [ONE, ONE + OTHER, f"{ONE}\n{OTHER}", f"{ONE}\n"],
        ["", "x", f"x{ONE}", f"{ONE} x"],
    ),
    "exactly one": (triggered(at_least_one=True, stop_after_first=True), [ONE], ["", ONE + OTHER, f"{ONE}\n"]),
    "separated": (triggered(at_least_one=True, separator="; "), [ONE, f"{ONE}; {OTHER}"], [ONE + OTHER, f"{ONE}; "]),
    "only tags": (
        of_format(type="tags_with_separator", separator="\n", tags=TAGS),
        ["", ONE, f"{ONE}\n{OTHER}"],
        ["x", ONE + OTHER],
    ),
    "a tag": (
        of_format(
            type="tag", begin='a/"😀\n', content={"type": "json_schema", "json_schema": {"type": "integer"}}, end=""
        ),
        ['a/"😀\n12'],
        ["12"],
    ),
    "a schema": (of_format(type="json_schema", json_schema={"type": "integer"}), ["12"], ["x"]),
    "legacy": (legacy(CITY), ['a<f>{"city": "é"}</f>b', "x"], ["<f", "<f>x", "a<f>b"]),
    "braces": (
        {
            "type": "structural_tag",
            "structures": [{"begin": '{"name": "f", "parameters": ', "schema": CITY, "end": "}"}],
            "triggers": ['{"name": '],
        },
        ['{"name": "f", "parameters": {"city": "a"}}', '{"x": 1}'],
        ['{"name": 1}', '{"name": "g"}'],
    ),
    "a trigger that begins another": (
        legacy(CITY, triggers=["<f>", "<f"]),
        ['<f>{"city": "é"}</f>', "<"],
        ["<f"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_taken_and_what_is_not(case: str) -> None:
    source, taken, others = CASES[case]
    started = made(source)
    assert [text for text in taken if not takes(started, text)] == []
    assert [text for text in others if takes(started, text)] == []


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
def test_no_walk_leaves_a_trigger_without_a_tag(seed: int, at_least_one: bool) -> None:
    text = walk(made(triggered(at_least_one=at_least_one)), seed, most=200) or ""
    whole = re.compile(r'<tool_call>\n{"name": "(?:get|get_x)", "arguments": (.*?)}\n</tool_call>')
    for found in whole.finditer(text):
        json.loads(found[1])
    assert "<tool_call>" not in whole.sub("", text)


def test_flexible_whitespace_is_for_values_alone() -> None:
    started = made(triggered(), whitespace="flexible")
    assert takes(started, ONE.replace('{"city": "x"}', '{ "city" : "x" }'))
    assert not takes(started, ONE.replace('"name":', '"name" :'))


def test_a_trigger_that_is_a_special_token_too_is_spelt_out() -> None:
    tags = [{"begin": "<|im_start|>\n", "content": {"type": "json_schema", "json_schema": CITY}, "end": "<|im_end|>"}]
    started = made(triggered(tags=tags, triggers=["<|im_start|>"]))
    assert takes(started, 'hi<|im_start|>\n{"city": "x"}<|im_end|>')
    assert not takes(started, "hi<|im_start|>")
    start = bundled_tokenizer().greedy_tokenize("<|im_start|>")
    assert not any(map(bundled_tokenizer().is_special_token, start))


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (
            legacy({"type": "object", "properties": {"a": {"type": "x"}}}),
            ("structures", 0, "schema", "properties", "a", "type"),
        ),
        (triggered(tags=[TAGS[0], tag("f", {"not": {}})]), ("format", "tags", 1, "content", "json_schema", "not")),
        (legacy(CITY, triggers=["<g"]), ("structures", 0, "begin")),
        (legacy(CITY, triggers=["<f", "f"]), ("triggers",)),
        (legacy(CITY, triggers=[""]), ()),
        (legacy(CITY, structures=[]), ()),
        (legacy(CITY, structures=[{"begin": "<f", "schema": {}}]), ("structures", 0)),
        (legacy(CITY, format={"type": "json_schema", "json_schema": {}}), ()),
        (of_format(type="grammar", grammar="x"), ("format", "type")),
        (triggered(tags=TAGS * 65), ()),
        (triggered(tags=[{**TAGS[0], "end": "x" * 1025}]), ()),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_refusals_say_where(source: Any, path: tuple[str | int, ...]) -> None:
    with pytest.raises(Refused) as caught:
        made(source)
    assert caught.value.path == path


@pytest.mark.parametrize("source", ["", "[", "3", "[" * 100_000, '{"type": "structural_tag"}'])
def test_what_is_no_structural_tag_is_refused(source: str) -> None:
    with pytest.raises(Refused):
        grammar(source, strict=True, whitespace="fixed", caps=CAPS)


def test_a_tag_may_have_any_character_around_it() -> None:
    around = "".join(map(chr, [*range(128), 0x85, 0x2028, 0x1F600]))
    form = {"type": "tag", "begin": around, "content": {"type": "json_schema", "json_schema": {"const": 1}}}
    source = json.dumps(of_format(**form, end=around))
    assert engine_bytes.takes(grammar(source, strict=True, whitespace="fixed", caps=CAPS), f"{around}1{around}")


def test_one_tag_can_be_relaxed() -> None:
    relaxed = made(triggered(tags=[tag("f", {"type": "object", "not": {}}, strict=False)]))
    assert takes(relaxed, '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
