"""Messages as clients write them, and as templates want them."""

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.chat import read_chat
from shared import wire
from tests.support.gateway_terms import TERMS

HELLO = {"role": "user", "content": "Hello"}
DEEP = '{"a":' * 300 + "1" + "}" * 300
DEEPER = '{"a":' * 3000 + "1" + "}" * 3000


def read(*messages):
    return read_chat(msgspec.json.encode({"messages": messages}), TERMS).parts[0].request.messages


def refusal(messages):
    with pytest.raises(ApiError) as caught:
        read_chat(msgspec.json.encode({"messages": messages}), TERMS)
    return caught.value.error


def call(name="f", arguments='{"a": 1}'):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


CALL = call()


def test_messages_become_the_wires():
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]},
        {"role": "assistant", "content": "Moby-Dick", "refusal": None, "tool_calls": None, "annotations": []},
        {"role": "user", "content": "", "name": "Ishmael"},
    ]
    assert read(*messages) == (
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
        ([{"role": "tool", "content": "x"}], "messages.0.tool_call_id"),
        ([{"role": "tool", "tool_call_id": "c"}], "messages.0.content"),
        ([{"role": "user", "content": "x", "tool_call_id": "c"}], "messages.0.tool_call_id"),
        ([{"role": "user", "content": "x", "tool_calls": [CALL]}], "messages.0.tool_calls"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "messages.0.content"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "messages.0.tool_calls.0.id"),
        ([{"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]}], "messages.0.tool_calls.0.type"),
        ([{"role": "assistant", "tool_calls": [call(name=5)]}], "messages.0.tool_calls.0.function.name"),
        ([{"role": "assistant", "tool_calls": [call(arguments={})]}], "messages.0.tool_calls.0.function.arguments"),
        ([{"role": "assistant", "content": "", "function_call": {"name": "f"}}], "messages.0.function_call"),
    ],
)
def test_bad_messages_are_refused_by_place(messages, param):
    error = refusal(messages)
    assert (error.status, error.param) == (400, param)


@pytest.mark.parametrize("message", [{"role": "tool", "content": "x"}, {"role": "tool", "tool_call_id": "c"}])
def test_what_is_missing_has_one_code_wherever_it_is(message):
    assert refusal([message]).code == "missing_required_parameter"


PART = {"type": "text", "text": ""}
MOST = TERMS.limits.max_model_len


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO] * (MOST + 1),
        [None] * (MOST + 1),  # refused before any one of them is looked at
        [{"role": "user", "content": [PART] * (MOST + 1)}],
        [{"role": "user", "content": [PART] * (MOST // 2)}] * 3,
        [{"role": "assistant", "tool_calls": [None] * (MOST + 1)}],
    ],
)
def test_more_messages_and_parts_than_tokens_are_refused_unread(messages):
    error = refusal(messages)
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "messages")
    assert str(MOST) in error.message


def test_as_many_messages_and_parts_as_tokens_are_for_the_tokenizer_to_judge():
    assert len(read(*[HELLO] * MOST)) == MOST
    assert read({"role": "user", "content": [PART] * MOST})


def test_a_call_and_its_answer():
    called = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"b": [1], "a": "x"}}}
    assert read(
        HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"b": [1], "a": "x"}')]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
    )[1:] == (
        wire.ChatMessage("assistant", "", {"tool_calls": [called]}),
        wire.ChatMessage("tool", "sunny", {"tool_call_id": "call_1"}),
    )


def test_arguments_keep_their_order_and_may_be_left_empty():
    first, second = read({"role": "assistant", "content": "Hm.", "tool_calls": [call(arguments=""), CALL]})[0].extra[
        "tool_calls"
    ]
    assert first["function"]["arguments"] == {}
    assert second["function"]["arguments"] == {"a": 1}
    (message,) = read({"role": "assistant", "tool_calls": [call(arguments='{"z": 1, "a": 2}')]})
    assert list(message.extra["tool_calls"][0]["function"]["arguments"]) == ["z", "a"]


@pytest.mark.parametrize("text", ['{"city": "Par', "[]", "3", "no JSON", f'{{"a": {10**30}}}', DEEP, DEEPER])
def test_arguments_that_are_no_object_stay_text(text):
    (message,) = read({"role": "assistant", "tool_calls": [call(arguments=text)]})
    assert message.extra["tool_calls"][0]["function"]["arguments"] == text


LARGEST = TERMS.limits.constraints.max_source_bytes


@pytest.mark.parametrize(
    ("sizes", "refused"), [([LARGEST + 1], 0), ([0, LARGEST + 1], 1), ([LARGEST] * 5, 4), ([LARGEST] * 4, None)]
)
def test_arguments_are_bounded_each_and_together(sizes, refused):
    messages = [
        {"role": "assistant", "tool_calls": [call(arguments="é" * (size // 2) + " " * (size % 2))]} for size in sizes
    ]
    if refused is None:
        assert len(read(*messages)) == len(sizes)
    else:
        assert refusal(messages).param == f"messages.{refused}.tool_calls.0.function.arguments"


def test_what_clients_add_to_a_call_when_they_send_it_back():
    function = {**CALL["function"], "parsed_arguments": {"a": 1}}
    message = {"role": "assistant", "content": None, "refusal": None, "parsed": None, "function_call": None}
    assert read({**message, "tool_calls": [{**CALL, "index": 0, "function": function}]}) == read(
        {"role": "assistant", "tool_calls": [CALL]}
    )
