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


def test_messages_become_the_wires():
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]},
        {"role": "assistant", "content": "Moby-Dick", "refusal": None, "tool_calls": None, "annotations": []},
        {"role": "user", "content": "", "name": "Ishmael"},
    ]
    assert read(messages=messages).request.messages == (
        wire.ChatMessage("system", "Be brief."),
        wire.ChatMessage("user", "What is\nthe best book"),
        wire.ChatMessage("assistant", "Moby-Dick"),
        wire.ChatMessage("user", "", {"name": "Ishmael"}),
    )


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ("string", "messages"),
        ([], "messages"),
        ([123], "messages.0"),
        ([HELLO, None], "messages.1"),
        ([{}], "messages.0.role"),
        ([{"role": 123, "content": "x"}], "messages.0.role"),
        ([{"role": "wizard", "content": "x"}], "messages.0.role"),
        ([HELLO, {"role": "user"}], "messages.1.content"),
        ([HELLO, {"role": "user", "content": None}], "messages.1.content"),
        ([HELLO, {"role": "user", "content": 5}], "messages.1.content"),
        ([HELLO, {"role": "user", "content": "x", "contnet": "y"}], "messages.1.contnet"),
        ([{"role": "user", "content": ["x"]}], "messages.0.content.0"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "messages.0.content.0.text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}],
            "messages.0.content.0.type",
        ),
        ([{"role": "tool", "content": "x", "tool_call_id": "c"}], "messages.0.tool_call_id"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "messages.0.tool_calls"),
    ],
)
def test_bad_messages_are_refused_by_place(messages, param):
    error = refusal(messages=messages)
    assert (error.status, error.param) == (400, param)


PART = {"type": "text", "text": ""}
MOST = TERMS.limits.max_model_len


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO] * (MOST + 1),
        [None] * (MOST + 1),  # refused before any one of them is looked at
        [{"role": "user", "content": [PART] * (MOST + 1)}],
        [{"role": "user", "content": [PART] * (MOST // 2)}] * 3,
    ],
)
def test_more_messages_and_parts_than_tokens_are_refused_unread(messages):
    error = refusal(messages=messages)
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")
    assert str(MOST) in error.message


def test_as_many_messages_and_parts_as_tokens_are_for_the_tokenizer_to_judge():
    assert len(read(messages=[HELLO] * MOST).request.messages) == MOST
    assert read(messages=[{"role": "user", "content": [PART] * MOST}]).request.messages


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "prompt_cache_key": "k"},
        {"parallel_tool_calls": True, "safety_identifier": "s"},
        {"n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "modalities": ["text"]},
        {"tools": None, "response_format": None, "functions": None, "reasoning_effort": None},
        {"chat_template_kwargs": {}, "continue_final_message": False, "add_generation_prompt": True},
    ],
)
def test_harmless_fields_change_nothing(fields):
    assert read(**fields).request == read().request


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "sound"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "b", "schema": {}}}},
        {"chat_template": "{% for i in range(10**9) %}x{% endfor %}"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"continue_final_message": True},
        {"best_of": 2},
        {"reasoning_effort": "high"},
    ],
)
def test_what_would_change_the_output_and_is_not_there_is_refused(fields):
    error = refusal(**fields)
    assert (error.status, error.param, error.code) == (400, next(iter(fields)), "unsupported_parameter")


@pytest.mark.parametrize("model", [{}, {"model": "tiny"}, {"model": "default"}, {"model": None}])
def test_the_model_by_its_name_or_by_default(model):
    assert read(**model).request.messages is not None


def test_another_model_does_not_exist():
    error = refusal(model="gpt-7")
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")


def test_either_name_of_the_limit():
    assert read().request.max_new_tokens is None
    assert read(max_tokens=5).request.max_new_tokens == 5
    assert read(max_tokens=5, max_completion_tokens=6).request.max_new_tokens == 6


def test_logprobs():
    assert not read().request.sampling.logprobs
    assert read(logprobs=True).request.sampling.top_logprobs == 0
    asked = read(logprobs=True, top_logprobs=3).request.sampling
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
    assert read(stop="x", include_stop_str_in_output=True).request.text == wire.TextOptions(("x",), True, True)


def test_priority():
    assert read(priority=-5).request.priority == -5
    assert refusal(priority=10**9).param == "priority"
