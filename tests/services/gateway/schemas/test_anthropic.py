"""Bodies of /v1/messages: fields, tools and formats of the output."""

import json

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.anthropic import read_anthropic, read_count
from shared import wire
from shared.tool_format import HERMES
from tests.support.gateway_terms import LIMITS, TERMS

HELLO = {"role": "user", "content": "Hello"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather", "input_schema": CITY}
TIME = {"name": "get_time", "input_schema": {"type": "object"}}


def body(**fields):
    return msgspec.json.encode({"model": "tiny", "max_tokens": 50, "messages": [HELLO], **fields})


def read(**fields):
    return read_anthropic(body(**fields), TERMS)


def request(**fields):
    (part,) = read(**fields).parts
    return part.request


def count(**fields):
    return read_count(body(**fields), LIMITS, HERMES)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    return caught.value.error


def form(**fields):
    constraint = request(**fields).constraint
    assert constraint.kind == "structural_tag"
    return json.loads(constraint.source)["format"]


def test_the_fields_find_their_places():
    found = request(
        system="S", temperature=0.5, top_p=0.9, top_k=7, stop_sequences=["a", "b"], seed=3, priority=2, timeout=9
    )
    assert [message.role for message in found.messages] == ["system", "user"]
    assert found.sampling == wire.Sampling(seed=3, temperature=0.5, top_p=0.9, top_k=7)
    assert (found.text.stop, found.max_new_tokens, found.priority, found.timeout_s) == (("a", "b"), 50, 2, 9)


def test_a_stream_is_asked_for():
    assert read(stream=True).stream
    assert not read().stream


def test_no_output_can_be_asked_for():
    assert request(max_tokens=0).max_new_tokens == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}},
        {"thinking": {"type": "disabled"}, "tools": [], "tool_choice": {"type": "none"}},
        {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "low"}},
        {"output_config": {"format": None}, "output_format": None, "stop_sequences": None, "system": None},
        {"speed": "standard", "inference_geo": "eu", "mcp_servers": [], "container": None},
        {"tools": [WEATHER], "tool_choice": {"type": "none"}},
    ],
)
def test_harmless_fields_change_nothing(fields):
    assert request(**fields) == request()


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"max_tokens": None}, "max_tokens", "missing_required_parameter"),
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": "other"}, "model", "model_not_found"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"max_tokens": -1}, "max_tokens", "invalid_value"),
        ({"temperature": 1.5}, "temperature", "invalid_value"),
        ({"stop_sequences": "x"}, "stop_sequences", "invalid_value"),
        ({"stop_sequences": [""]}, "stop_sequences", "invalid_value"),
        ({"stop_sequences": ["x"] * 5}, "stop_sequences", "invalid_value"),
        ({"stop": ["x"]}, "stop", "unsupported_parameter"),
        ({"n": 2}, "n", "unknown_parameter"),
        ({"min_tokens": 51}, "min_tokens", "invalid_value"),
        ({"container": "c"}, "container", "unsupported_parameter"),
        ({"mcp_servers": [{}]}, "mcp_servers", "unsupported_parameter"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking.type", "unsupported_parameter"),
        ({"thinking": {"type": "loud"}}, "thinking.type", "invalid_value"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type", "invalid_value"),
        ({"output_format": {"type": "json_schema"}}, "output_format.schema", "missing_required_parameter"),
        ({"output_config": {"effrt": "low"}}, "output_config.effrt", "unknown_parameter"),
    ],
)
def test_what_is_refused_is_named(fields, param, code):
    error = refusal(**fields)
    assert (error.param, error.code) == (param, code)


def test_a_last_word_of_the_assistant_is_continued():
    said = [HELLO, {"role": "assistant", "content": "The answer is ("}]
    assert request(messages=said).template_options == {"continue_final_message": True}
    assert request(chat_template_kwargs={"a": 1}).template_options == {"chat_template_kwargs": {"a": 1}}


# --- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"output_config": {"format": {"type": "json_schema", "schema": CITY}}}, "output_config.format.schema"),
        ({"output_format": {"type": "json_schema", "schema": CITY}}, "output_format.schema"),
        ({"json_schema": CITY}, "json_schema"),
    ],
)
def test_a_schema(fields, place):
    (part,) = read(**fields).parts
    assert part.request.constraint == wire.Constraint("json_schema", msgspec.json.encode(CITY).decode())
    assert part.name_of("constraint.properties.city") == f"{place}.properties.city"


def test_there_is_one_constraint_at_most():
    schema = {"type": "json_schema", "schema": CITY}
    assert refusal(output_config={"format": schema}, output_format=schema).param == "output_format"
    assert refusal(output_config={"format": schema}, tools=[WEATHER]).param == "output_config.format"
    assert refusal(regex="a", tools=[WEATHER]).param == "regex"


# --- tools -----------------------------------------------------------------------------------------------------------


def test_the_model_is_shown_the_tools_as_templates_know_them():
    assert request(tools=[WEATHER, TIME]).tools == (
        {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": CITY}},
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}},
    )


@pytest.mark.parametrize(
    ("choice", "needs_call", "is_one", "names"),
    [
        (None, False, False, ["get_weather", "get_time"]),
        ({"type": "auto"}, False, False, ["get_weather", "get_time"]),
        ({"type": "auto", "disable_parallel_tool_use": True}, False, True, ["get_weather", "get_time"]),
        ({"type": "any"}, True, False, ["get_weather", "get_time"]),
        ({"type": "any", "disable_parallel_tool_use": True}, True, True, ["get_weather", "get_time"]),
        ({"type": "tool", "name": "get_time"}, True, True, ["get_time"]),
    ],
)
def test_the_choice_of_tools(choice, needs_call, is_one, names):
    found = form(tools=[WEATHER, TIME], tool_choice=choice)
    assert (found["at_least_one"], found["stop_after_first"]) == (needs_call, is_one)
    assert [tag["begin"] for tag in found["tags"]] == [HERMES.tag(name)[0] for name in names]


def test_arguments_obey_the_schema():
    strict = {**WEATHER, "strict": True, "type": "custom", "cache_control": {"type": "ephemeral"}}
    (tag,) = form(tools=[strict])["tags"]
    assert tag["content"] == {"type": "json_schema", "json_schema": CITY, "strict": True}
    (part,) = read(tools=[WEATHER]).parts
    named = part.name_of("constraint.format.tags.0.content.json_schema.properties.city")
    assert named == "tools.0.input_schema.properties.city"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.type"),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
        ({"tools": [WEATHER, {**TIME, "name": "get time"}]}, "tools.1.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools.1.name"),
        ({"tools": [{**TIME, "input_schema": {"type": "string"}}]}, "tools.0.input_schema.type"),
        ({"tools": [{**TIME, "defer_loading": True}]}, "tools.0.defer_loading"),
        ({"tools": [{"name": "f", "parameters": {}}]}, "tools.0.parameters"),
        ({"tools": ["f"]}, "tools.0"),
        ({"tools": [{**TIME, "input_schema": {"maximum": 10**30}}]}, "tools"),
        ({"chat_template_kwargs": {"a": 10**30}}, "chat_template_kwargs"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "f"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "any", "name": "get_weather"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_tools_that_are_refused_are_named(fields, param):
    assert refusal(**fields).param == param


def test_a_choice_of_a_tool_without_its_name_is_told_so():
    error = refusal(tools=[WEATHER], tool_choice={"type": "tool"})
    assert (error.param, error.code) == ("tool_choice.name", "missing_required_parameter")


# --- counting --------------------------------------------------------------------------------------------------------


def test_what_is_counted_is_what_would_be_asked():
    fields = {
        "system": "S",
        "tools": [WEATHER],
        "messages": [HELLO, {"role": "assistant", "content": "A"}],
        "chat_template_kwargs": {"a": 1},
    }
    question, asked = count(**fields), request(**fields)
    assert question.op == "count"
    assert (question.messages, question.tools) == (asked.messages, asked.tools)
    assert question.template_options == asked.template_options


def test_a_body_of_messages_can_be_counted_as_it_is():
    assert count(stream=True, temperature=0.5, stop_sequences=["x"], priority=1) == count()


def test_tools_that_the_model_is_not_shown_do_not_count():
    assert count(tools=[WEATHER], tool_choice={"type": "none"}) == count()


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ApiError) as caught:
        count(messages=[{"role": "user", "content": [{"type": "image"}]}])
    assert caught.value.error.param == "messages.0.content.0.type"
