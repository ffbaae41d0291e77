"""Anthropic's messages, as chat templates want them."""

import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.anthropic_messages import read_conversation
from shared.wire import ChatMessage
from tests.support.gateway_terms import LIMITS

HELLO = {"role": "user", "content": "Hello"}
CALL = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": {"a": [1, {"b": None}]}}}


def read(*messages, system=None):
    return read_conversation(list(messages), system, LIMITS)


def refusal(*messages, system=None):
    with pytest.raises(ApiError) as caught:
        read(*messages, system=system)
    return caught.value.error


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def tool_use(call_id="toolu_1", arguments=None, **more):
    return {"type": "tool_use", "id": call_id, "name": "f", "input": arguments or {}, **more}


def result(call_id="toolu_1", **fields):
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


@pytest.mark.parametrize("content", ["Hello", [text("Hello")], [text("Hello", cache_control={"type": "ephemeral"})]])
def test_text_is_a_string_or_blocks(content):
    assert read({"role": "user", "content": content}) == (ChatMessage("user", "Hello"),)
    assert read(HELLO, system=content)[0] == ChatMessage("system", "Hello")


def test_blocks_of_text_are_lines():
    assert read(user(text("a"), text(""), text("b"))) == (ChatMessage("user", "a\nb"),)


@pytest.mark.parametrize("system", [None, "", [], [text("")]])
def test_no_system_prompt(system):
    assert read(HELLO, system=system) == read(HELLO)


def test_neighbours_of_one_role_are_one_message():
    said = [HELLO, user(text("you")), assistant(text("A")), assistant(text("B")), HELLO]
    assert read(*said, system="S") == (
        ChatMessage("system", "S"),
        ChatMessage("user", "Hello\nyou"),
        ChatMessage("assistant", "A\nB"),
        ChatMessage("user", "Hello"),
    )


def test_a_system_message_may_stand_anywhere():
    later = {"role": "system", "content": "Now briefly."}
    roles = [message.role for message in read(later, HELLO, later, system="S")]
    assert roles == ["system", "user", "system"]


def test_calls_and_their_results():
    said = [
        HELLO,
        assistant(text("I look."), tool_use(arguments={"a": [1, {"b": None}]}, caller={"type": "direct"})),
        user(result(content="Sunny"), text("Well?")),
    ]
    assert read(*said)[1:] == (
        ChatMessage("assistant", "I look.", {"tool_calls": [CALL]}),
        ChatMessage("tool", "Sunny", {"tool_call_id": "toolu_1"}),
        ChatMessage("user", "Well?"),
    )


def test_several_calls_are_one_message_and_each_result_is_one():
    said = [HELLO, assistant(tool_use("1"), tool_use("2")), user(result("1", content="a"), result("2", content="b"))]
    _, calls, first, second = read(*said)
    assert [call["id"] for call in calls.extra["tool_calls"]] == ["1", "2"]
    assert [(first.content, first.extra), (second.content, second.extra)] == [
        ("a", {"tool_call_id": "1"}),
        ("b", {"tool_call_id": "2"}),
    ]


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({}, ""),
        ({"content": [text("a"), text("b")]}, "a\nb"),
        ({"content": "no such city", "is_error": True}, "no such city"),
    ],
)
def test_results(fields, content):
    assert read(HELLO, assistant(tool_use()), user(result(**fields)))[-1].content == content


def test_earlier_thoughts_are_left_out():
    thoughts = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "redacted_thinking", "data": "x"}]
    assert read(HELLO, assistant(*thoughts, text("A")), HELLO) == read(HELLO, assistant(text("A")), HELLO)
    assert read(HELLO, assistant(*thoughts), HELLO) == read(user(text("Hello"), text("Hello")))


def test_numbers_that_cannot_travel_are_text():
    (_, called, _) = read(HELLO, assistant(tool_use(arguments={"a": 10**30})), user(result()))
    assert called.extra["tool_calls"][0]["function"]["arguments"] == '{"a":1000000000000000000000000000000}'


def test_a_last_word_of_the_assistant_without_words_is_none():
    assert read(HELLO, {"role": "assistant", "content": ""}) == read(HELLO)


@pytest.mark.parametrize(
    ("messages", "param", "code"),
    [
        ([], "messages", "invalid_value"),
        ([{"role": "system", "content": "S"}], "messages", "invalid_value"),
        ([user(text(""))], "messages", "invalid_value"),
        ([{"role": "tool", "content": "x"}], "messages.0.role", "invalid_value"),
        ([{"role": "user"}], "messages.0.content", "missing_required_parameter"),
        ([HELLO, {**HELLO, "name": "x"}], "messages.1.name", "unknown_parameter"),
        ([user({"type": "image", "source": {}})], "messages.0.content.0.type", "unsupported_parameter"),
        ([user(text("a"), {"type": "document"})], "messages.0.content.1.type", "unsupported_parameter"),
        ([user(tool_use())], "messages.0.content.0.type", "unsupported_parameter"),
        ([HELLO, assistant(result())], "messages.1.content.0.type", "unsupported_parameter"),
        ([user({"type": "text"})], "messages.0.content.0.text", "missing_required_parameter"),
        ([user("text")], "messages.0.content.0", "invalid_value"),
        ([user(result(content=[{"type": "image"}]))], "messages.0.content.0.content.0.type", "unsupported_parameter"),
        ([HELLO, assistant(tool_use(arguments=[1]))], "messages.1.content.0.input", "invalid_value"),
        (
            [HELLO, assistant({"type": "tool_use", "name": "f"})],
            "messages.1.content.0.id",
            "missing_required_parameter",
        ),
        ([HELLO, assistant(tool_use())], "messages.1", "invalid_value"),
        ([user(*[text("x")] * 300)], "messages.0.content.255", "context_length_exceeded"),
        ([HELLO] * 300, "messages.256", "context_length_exceeded"),
        ([user(result(content=[text("x")] * 300))], "messages.0.content.0.content.254", "context_length_exceeded"),
    ],
)
def test_what_is_refused_is_named(messages, param, code):
    error = refusal(*messages)
    assert (error.status, error.param, error.code) == (400, param, code)


def test_a_system_prompt_that_is_none_is_named():
    assert refusal(HELLO, system=[{"type": "image"}]).param == "system.0.type"


def test_input_is_bounded():
    large = tool_use(arguments={"a": "x" * 200_000})
    assert refusal(HELLO, assistant(*[large] * 6), user(result())).param == "messages.1.content.5.input"
