"""OpenAI's `response_format`."""

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from shared import wire
from tests.support.gateway_terms import TERMS

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
SOURCE = msgspec.json.encode(SCHEMA).decode()


def chat(response_format, **fields):
    body = {"messages": [{"role": "user", "content": "x"}], "response_format": response_format, **fields}
    return read_chat(msgspec.json.encode(body), TERMS)


def completion(response_format, **fields):
    return read_completion(msgspec.json.encode({"prompt": "x", "response_format": response_format, **fields}), TERMS)


def of_schema(**fields):
    return {"type": "json_schema", "json_schema": fields}


def refusal(response_format, **fields):
    with pytest.raises(ApiError) as caught:
        chat(response_format, **fields)
    assert caught.value.error.status == 400
    return caught.value.error


@pytest.mark.parametrize("api", [chat, completion])
@pytest.mark.parametrize(
    ("response_format", "constraint"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, wire.Constraint("json_object", "")),
        ({"type": "json_object", "schema": SCHEMA}, wire.Constraint("json_schema", SOURCE)),
        (of_schema(name="b"), wire.Constraint("json_object", "")),
        (of_schema(name="b", schema=SCHEMA, strict=True, description="d"), wire.Constraint("json_schema", SOURCE)),
        (of_schema(name="b", schema=SCHEMA), wire.Constraint("json_schema", SOURCE)),
        (of_schema(name="b", schema=SCHEMA, strict=None), wire.Constraint("json_schema", SOURCE)),
        (of_schema(name="b", schema=SCHEMA, strict=False), wire.Constraint("json_schema", SOURCE, strict=False)),
        (
            {"type": "structural_tag", "format": {"type": "tag"}},
            wire.Constraint("structural_tag", '{"type":"structural_tag","format":{"type":"tag"}}'),
        ),
    ],
)
def test_formats_become_constraints(api, response_format, constraint):
    assert api(response_format).parts[0].request.constraint == constraint


def test_modes_of_our_own_stand_beside_it():
    asked = chat(of_schema(schema={}), strict_schema=False, json_whitespace="flexible").parts[0].request.constraint
    assert asked == wire.Constraint("json_schema", "{}", strict=False, whitespace="flexible")
    assert (
        chat({"type": "json_object"}, json_whitespace="flexible").parts[0].request.constraint.whitespace == "flexible"
    )


@pytest.mark.parametrize(
    ("response_format", "param"),
    [
        ({"type": "sound"}, "response_format"),
        ({"type": ["text"]}, "response_format"),
        ({}, "response_format.type"),
        ({"type": "text", "schema": SCHEMA}, "response_format.schema"),
        ({"type": "json_object", "json_schema": {}}, "response_format.json_schema"),
        ({"type": "json_object", "schema": "{}"}, "response_format.schema"),
        ("json_object", "response_format"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": SCHEMA}, "response_format.json_schema.type"),
        ({"type": "json_schema", "schema": SCHEMA}, "response_format.schema"),
        (of_schema(name="b", schema="{}"), "response_format.json_schema.schema"),
        (of_schema(name=5, schema={}), "response_format.json_schema.name"),
        (of_schema(name="b", schema={}, strict="yes"), "response_format.json_schema.strict"),
        (of_schema(name="b", schema={"d": "x" * 300_000}), "response_format.json_schema.schema"),
    ],
)
def test_refusals_name_the_place(response_format, param):
    assert refusal(response_format).param == param


def test_a_field_of_our_own_beside_it_is_one_too_many():
    assert refusal({"type": "json_object"}, regex="a").param == "regex"
    assert chat({"type": "text"}, regex="a").parts[0].request.constraint == wire.Constraint("regex", "a")


def test_places_in_it_by_the_clients_words():
    assert chat({"type": "json_object"}).parts[0].name_of("constraint") == "response_format"
    object_ = chat({"type": "json_object", "schema": SCHEMA})
    assert object_.parts[0].name_of("constraint.properties") == "response_format.schema.properties"
    tags = chat({"type": "structural_tag", "structures": []})
    assert tags.parts[0].name_of("constraint.structures.0.begin") == "response_format.structures.0.begin"
    assert chat(of_schema(schema={})).parts[0].name_of("constraint.a") == "response_format.json_schema.schema.a"


@pytest.mark.parametrize("levels", [70, 200])
def test_a_schema_is_too_deep_by_the_number_that_the_executor_takes(levels):
    schema = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    error = refusal(of_schema(name="a", schema=schema))
    assert error.message == "response_format.json_schema.schema: nested more than 64 levels deep"
