"""The constraint fields of all APIs: what becomes of them, and what is refused before anybody compiles it."""

import json

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.gateway.schemas.native import read_native
from shared import wire
from shared.config import ConstraintsConfig
from tests.support.gateway_terms import TERMS

CAPS = ConstraintsConfig()
SCHEMA = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"const": "é"}}}
TAGS = {"structures": [{"begin": "<f>", "schema": {}, "end": "</f>"}], "triggers": ["<f>"]}
TAGGED = msgspec.json.encode({"type": "structural_tag", **TAGS}).decode()


def chat(**fields):
    return read_chat(msgspec.json.encode({"messages": [{"role": "user", "content": "x"}], **fields}), TERMS)


def completion(**fields):
    return read_completion(msgspec.json.encode({"prompt": "x", **fields}), TERMS)


def top_level(**fields):
    return read_native(msgspec.json.encode({"text": "x", **fields}), TERMS)


def nested(**fields):
    return read_native(msgspec.json.encode({"text": "x", "sampling_params": fields}), TERMS)


APIS = [chat, completion, top_level, nested]


def refusal(api, **fields):
    with pytest.raises(ApiError) as caught:
        api(**fields)
    assert caught.value.error.status == 400
    return caught.value.error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fields", "kind", "source"),
    [
        ({"regex": "a\0{2}"}, "regex", "a\0{2}"),
        ({"ebnf": 'root ::= "a"'}, "ebnf", 'root ::= "a"'),
        ({"choices": ["yes", "no é"]}, "choices", '["yes","no é"]'),
        ({"json_schema": SCHEMA}, "json_schema", json.dumps(SCHEMA, separators=(",", ":"), ensure_ascii=False)),
        ({"json_schema": json.dumps(SCHEMA)}, "json_schema", msgspec.json.encode(SCHEMA).decode()),
        ({"json_schema": {}}, "json_schema", "{}"),
        ({"json_schema": "$$ANY$$"}, "json_object", ""),
        ({"structural_tag": TAGS}, "structural_tag", TAGGED),
        ({"structural_tag": {"type": "structural_tag", **TAGS}}, "structural_tag", TAGGED),
        ({"structural_tag": json.dumps(TAGS, indent=2)}, "structural_tag", TAGGED),
    ],
)
def test_each_kind_through_each_api(api, fields, kind, source):
    call = api(**fields)
    assert call.parts[0].request.constraint == wire.Constraint(kind, source)
    (name,) = fields
    assert call.parts[0].name_of("constraint.a.1") == f"sampling_params.{name}.a.1" if api is nested else f"{name}.a.1"


@pytest.mark.parametrize("api", APIS)
def test_none_is_none(api):
    nothing = dict.fromkeys(["regex", "json_schema", "ebnf", "choices", "structural_tag"])
    assert api(**nothing).parts[0].request.constraint is None
    assert api(**nothing).parts[0].request == api(strict_schema=False, json_whitespace="flexible").parts[0].request


def test_modes_are_part_of_the_constraints_that_they_change():
    modes = {"strict_schema": False, "json_whitespace": "flexible"}
    assert chat(json_schema={}, **modes).parts[0].request.constraint == wire.Constraint(
        "json_schema", "{}", False, "flexible"
    )
    assert chat(regex="a", **modes).parts[0].request.constraint == wire.Constraint("regex", "a")
    assert refusal(chat, json_schema={}, json_whitespace=r"\s*").param == "json_whitespace"
    assert refusal(chat, json_schema={}, strict_schema="no").param == "strict_schema"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"regex": "a", "json_schema": {}}, "json_schema"),
        ({"choices": ["a"], "ebnf": "a"}, "choices"),
        ({"regex": ""}, "regex"),
        ({"regex": 5}, "regex"),
        ({"regex": "é" * (CAPS.max_pattern_bytes // 2 + 1)}, "regex"),
        ({"ebnf": "x" * (CAPS.max_source_bytes + 1)}, "ebnf"),
        ({"json_schema": ""}, "json_schema"),
        ({"json_schema": "{"}, "json_schema"),
        ({"json_schema": "[]"}, "json_schema"),
        ({"json_schema": '{"a": "\\ud800"}'}, "json_schema"),
        ({"json_schema": True}, "json_schema"),
        ({"json_schema": '{"a":' * 300 + "1" + "}" * 300}, "json_schema"),
        ({"json_schema": '{"a":' * 3000 + "1" + "}" * 3000}, "json_schema"),
        ({"json_schema": {"description": "x" * CAPS.max_source_bytes}}, "json_schema"),
        ({"json_schema": " " * CAPS.max_source_bytes + "{}"}, "json_schema"),
        ({"structural_tag": "x"}, "structural_tag"),
        ({"choices": "yes"}, "choices"),
        ({"choices": []}, "choices"),
        ({"choices": ["a", 5]}, "choices.1"),
        ({"choices": ["a", ""]}, "choices.1"),
        ({"choices": ["a", "b", "a"]}, "choices.2"),
        ({"choices": [str(number) for number in range(CAPS.max_enum_values + 1)]}, "choices"),
        ({"choices": ["x" * CAPS.max_source_bytes]}, "choices"),
    ],
)
def test_refusals_name_the_field(fields, param):
    assert refusal(chat, **fields).param == param
    assert refusal(nested, **fields).param == f"sampling_params.{param}"


def test_a_lone_surrogate_is_no_json():
    body = b'{"prompt": "x", "regex": "\\ud800"}'
    with pytest.raises(ApiError) as caught:
        read_completion(body, TERMS)
    assert (caught.value.error.status, caught.value.error.code) == (400, "invalid_json")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["guided_regex", "guided_json", "guided_choice", "guided_grammar"])
def test_vllms_names_are_refused_with_a_hint_at_ours(api, name):
    assert "; use " in refusal(api, **{name: "a"}).message
    assert api(**{name: None}).parts[0].request.constraint is None


def test_what_cuts_an_output_short_may_stand_beside_a_constraint():
    request = nested(regex="a+", stop=["aaa"], min_new_tokens=2, ignore_eos=True).parts[0].request
    assert request.constraint is not None
