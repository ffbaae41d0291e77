import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.chat import read_chat
from shared import wire
from tests.support.gateway_terms import TERMS

HELLO = {"role": "user", "content": "Hello"}


def read(**fields):
    return read_chat(msgspec.json.encode({"messages": [HELLO], **fields}), TERMS)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    return caught.value.error


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "prompt_cache_key": "k"},
        {"parallel_tool_calls": True, "safety_identifier": "s"},
        {"chat_template_kwargs": None, "add_generation_prompt": None},
        {"n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "modalities": ["text"]},
        {"tools": None, "response_format": None, "functions": None, "reasoning_effort": None},
        {"chat_template_kwargs": {}, "continue_final_message": False, "tool_choice": "auto"},
    ],
)
def test_harmless_fields_change_nothing(fields):
    assert read(**fields).parts[0].request == read().parts[0].request


@pytest.mark.parametrize(
    "fields",
    [
        {"chat_template": "{% for i in range(10**9) %}x{% endfor %}"},
        {"best_of": 2},
        {"reasoning_effort": "high"},
    ],
)
def test_what_would_change_the_output_and_is_not_there_is_refused(fields):
    error = refusal(**fields)
    assert (error.status, error.param, error.code) == (400, next(iter(fields)), "unsupported_parameter")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("functions", "tools"), ("function_call", "tool_choice"), ("guided_json", "json_schema")],
)
def test_an_older_or_another_name_is_refused_with_a_hint(name, hint):
    error = refusal(**{name: {"name": "f"}})
    assert (error.param, error.code) == (name, "unsupported_parameter")
    assert error.message.endswith(f"; use {hint}")


def test_what_templates_take_is_handed_on():
    given = {"chat_template_kwargs": {"enable_thinking": False}, "continue_final_message": True}
    assert read(**given, add_generation_prompt=False).parts[0].request.template_options == {
        **given,
        "add_generation_prompt": False,
    }
    assert read(add_generation_prompt=True).parts[0].request.template_options == {"add_generation_prompt": True}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"a": "x" * 300_000}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": nested(300)}, "chat_template_kwargs"),
        ({"add_generation_prompt": 1}, "add_generation_prompt"),
        ({"continue_final_message": "yes"}, "continue_final_message"),
    ],
)
def test_template_options_of_the_wrong_kind_are_refused(fields, param):
    error = refusal(**fields)
    assert (error.status, error.param) == (400, param)


def test_either_of_tools_and_a_format_constrains_the_output():
    tools = [{"type": "function", "function": {"name": "f"}}]
    json_object = {"type": "json_object"}
    assert refusal(tools=tools, response_format=json_object).param == "response_format"
    assert refusal(tools=tools, regex="a").param == "regex"
    asked = read(tools=tools, tool_choice="none", response_format=json_object)
    assert asked.parts[0].request.constraint == wire.Constraint("json_object", "")
    assert asked.parts[0].request.tools is None


def test_a_later_stages_words_become_the_clients():
    schema = {"type": "json_schema", "json_schema": {"name": "b", "schema": {}}}
    call = read(response_format=schema)
    assert call.parts[0].name_of("prompt") == "messages"
    assert call.parts[0].name_of("constraint.properties.a") == "response_format.json_schema.schema.properties.a"
    assert call.parts[0].name_of("seed.constraint") == "seed.constraint"


@pytest.mark.parametrize("model", [{}, {"model": "tiny"}, {"model": "default"}, {"model": None}])
def test_the_model_by_its_name_or_by_default(model):
    assert read(**model).parts[0].request.messages is not None


def test_another_model_does_not_exist():
    error = refusal(model="gpt-7")
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")


def test_either_name_of_the_limit():
    assert read().parts[0].request.max_new_tokens is None
    assert read(max_tokens=5).parts[0].request.max_new_tokens == 5
    assert read(max_tokens=5, max_completion_tokens=6).parts[0].request.max_new_tokens == 6


def test_logprobs():
    assert not read().parts[0].request.sampling.logprobs
    assert read(logprobs=True).parts[0].request.sampling.top_logprobs == 0
    asked = read(logprobs=True, top_logprobs=3).parts[0].request.sampling
    assert (asked.logprobs, asked.top_logprobs) == (True, 3)
    for fields in ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 21}, {"logprobs": True, "top_logprobs": -1}):
        assert refusal(**fields).param == "top_logprobs"
    assert refusal(logprobs=1).param == "logprobs"


def test_stream_options():
    assert read(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}).stream
    assert refusal(stream_options={"include_usage": True}).param == "stream_options"
    assert refusal(stream=True, stream_options={"include_usage": 1}).param == "stream_options.include_usage"
    assert refusal(stream=True, stream_options={"includeusage": True}).param == "stream_options.includeusage"


def test_the_stop_string_can_stay_in_the_text():
    assert read(stop="x", include_stop_str_in_output=True).parts[0].request.text == wire.TextOptions(("x",), True, True)


def test_priority():
    assert read(priority=-5).parts[0].request.priority == -5
    assert refusal(priority=10**9).param == "priority"
