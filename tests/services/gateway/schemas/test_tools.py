"""`tools` and `tool_choice`: which calls are allowed, and what the model is shown."""

import json

import msgspec
import pytest
from msgspec import structs

from services.gateway.errors import ApiError
from services.gateway.schemas.call import Terms
from services.gateway.schemas.chat import read_chat
from shared.tool_format import HERMES, LLAMA3
from tests.support.gateway_terms import LIMITS, TERMS

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def tool(name="f", **fields):
    return {"type": "function", "function": {"name": name, **fields}}


WEATHER = tool("get_weather", description="The weather", parameters=CITY)
NAMED = {"type": "function", "function": {"name": "f"}}


def read(*tools, terms=TERMS, **fields):
    body = {"messages": [{"role": "user", "content": "x"}], "tools": tools, **fields}
    return read_chat(msgspec.json.encode(body), terms)


def refusal(*tools, **fields):
    with pytest.raises(ApiError) as caught:
        read(*tools, **fields)
    assert caught.value.error.status == 400
    return caught.value.error


def allowed(mode, *names):
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def source(*tools, **fields):
    constraint = read(*tools, **fields).parts[0].request.constraint
    assert constraint.kind == "structural_tag"
    return json.loads(constraint.source)


def form(*tools, **fields):
    return source(*tools, **fields)["format"]


def schema(parameters):
    return form(tool(parameters=parameters))["tags"][0]["content"]["json_schema"]


def tag(name, schema, strict=False):
    begin, end = HERMES.tag(name)
    content = {"type": "json_schema", "json_schema": schema, "strict": strict}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def test_a_call_is_a_tag_around_arguments_that_obey_the_schema():
    assert source(WEATHER, tool()) == {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<tool_call>"],
            "tags": [tag("get_weather", CITY), tag("f", NOTHING)],
            "at_least_one": False,
            "stop_after_first": False,
            "separator": "\n",
        },
    }


def test_the_models_own_format_is_used():
    asked = form(WEATHER, terms=Terms(LIMITS, LLAMA3, "", lambda: 1))
    assert asked["tags"][0]["begin"] == '{"name": "get_weather", "parameters": '
    assert (asked["triggers"], asked["separator"]) == (['{"name": '], "; ")


@pytest.mark.parametrize(
    ("fields", "at_least_one", "stop_after_first"),
    [
        ({}, False, False),
        ({"tool_choice": "auto"}, False, False),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, False, True),
        ({"tool_choice": "required"}, True, False),
        ({"tool_choice": "required", "parallel_tool_calls": False}, True, True),
        ({"tool_choice": NAMED}, True, True),
    ],
)
def test_how_many_calls_each_choice_allows(fields, at_least_one, stop_after_first):
    asked = form(WEATHER, tool(), **fields)
    assert (asked["at_least_one"], asked["stop_after_first"]) == (at_least_one, stop_after_first)


def test_a_named_function_is_the_only_one_to_call_and_all_are_shown():
    call = read(WEATHER, tool(), tool_choice=NAMED)
    assert form(WEATHER, tool(), tool_choice=NAMED)["tags"] == [tag("f", NOTHING)]
    assert call.parts[0].request.tools == (WEATHER, tool())
    assert call.parts[0].name_of("constraint.format.tags.0.content.json_schema.a") == "tools.1.function.parameters.a"


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_some_of_the_functions_may_be_allowed_and_all_are_shown(mode):
    call = read(WEATHER, tool("f"), tool("g"), tool_choice=allowed(mode, "g", "get_weather", "g"))
    asked = form(WEATHER, tool("f"), tool("g"), tool_choice=allowed(mode, "g", "get_weather", "g"))
    assert asked["tags"] == [tag("get_weather", CITY), tag("g", NOTHING)]
    assert (asked["at_least_one"], asked["stop_after_first"]) == (mode == "required", False)
    assert call.parts[0].request.tools == (WEATHER, tool("f"), tool("g"))
    assert call.parts[0].name_of("constraint.format.tags.1.content.json_schema.a") == "tools.2.function.parameters.a"


def test_none_is_a_request_without_tools():
    call = read(WEATHER, tool_choice="none")
    assert call.parts[0].request == read(tools=None).parts[0].request
    assert "tools" in call.reply.keywords
    assert call.reply.keywords["tools"] is None


@pytest.mark.parametrize(
    "choice", [None, "auto", "required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_calls_are_looked_for_in_what_may_hold_some(choice):
    found = read(WEATHER, tool_choice=choice).reply.keywords["tools"]
    assert found == structs.replace(HERMES, has_free_text=choice in (None, "auto"))


def test_without_tools_there_is_nothing_to_choose():
    assert (
        read(tool_choice="auto").parts[0].request
        == read(tool_choice="none").parts[0].request
        == read().parts[0].request
    )
    assert refusal(tool_choice="required").param == "tool_choice"
    assert refusal(tool_choice=NAMED).param == "tool_choice"


def test_each_function_is_as_strict_as_it_says():
    tags = form(tool("g", strict=True), tool("f", strict=False))["tags"]
    assert tags == [tag("g", NOTHING, strict=True), tag("f", NOTHING)]


def test_the_whitespace_of_arguments():
    assert read(tool(), json_whitespace="flexible").parts[0].request.constraint.whitespace == "flexible"


@pytest.mark.parametrize("parameters", [None, {}])
def test_a_function_without_parameters_takes_an_empty_object(parameters):
    assert schema(parameters) == NOTHING


def test_arguments_are_an_object_even_if_the_schema_does_not_say_so():
    parameters = {"properties": {"b": {}, "a": {}}}
    assert schema(parameters) == {"type": "object", **parameters}
    assert list(schema(parameters)["properties"]) == ["b", "a"]


def test_places_in_a_schema_by_the_clients_words():
    call = read(tool(), WEATHER)
    path = "constraint.format.tags.1.content.json_schema.properties.a.type"
    assert call.parts[0].name_of(path) == "tools.1.function.parameters.properties.a.type"
    assert call.parts[0].name_of("constraint") == "tools"


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"not": value}
    return value


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([5], "tools.0"),
        ([{}], "tools.0.type"),
        ([{"type": "function"}], "tools.0.function"),
        ([WEATHER, {"type": "web_search", "function": {}}], "tools.1.type"),
        ([{"type": "function", "function": {}}], "tools.0.function.name"),
        ([tool("")], "tools.0.function.name"),
        ([tool("a b")], "tools.0.function.name"),
        ([tool('a"b')], "tools.0.function.name"),
        ([tool("a\n")], "tools.0.function.name"),
        ([tool("x" * 65)], "tools.0.function.name"),
        ([tool(), tool()], "tools.1.function.name"),
        ([tool(parameters=[])], "tools.0.function.parameters"),
        ([tool(parameters={"type": "string"})], "tools.0.function.parameters.type"),
        ([tool(parameters={"type": ["object"]})], "tools.0.function.parameters.type"),
        ([tool(strict="yes")], "tools.0.function.strict"),
        ([tool(parametres={})], "tools.0.function.parametres"),
        ([tool(str(number)) for number in range(129)], "tools"),
        ([tool(description="x" * 300_000)], "tools"),
        ([tool(parameters=nested(300))], "tools"),
    ],
)
def test_bad_tools_are_refused_by_place(tools, param):
    assert refusal(*tools).param == param
    assert refusal(*tools, tool_choice="none").param == param


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (5, "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "tool", "function": {"name": "f"}}, "tool_choice.type"),
        ({"type": "allowed_tools", "function": {"name": "f"}}, "tool_choice.function"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        (allowed("none", "f"), "tool_choice.allowed_tools.mode"),
        (allowed("auto"), "tool_choice.allowed_tools.tools"),
        (allowed("auto", "f", "g"), "tool_choice.allowed_tools.tools.1.function.name"),
        ({"type": "function", "name": "f"}, "tool_choice.name"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "function", "function": {"name": "g"}}, "tool_choice.function.name"),
    ],
)
def test_bad_choices_are_refused_by_place(choice, param):
    assert refusal(tool(), tool_choice=choice).param == param


def test_a_choice_that_is_not_there_is_named():
    assert "'g'" in refusal(tool(), tool_choice={"type": "function", "function": {"name": "g"}}).message
