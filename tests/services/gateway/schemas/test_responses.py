"""The body of /v1/responses: its items as messages, its flat tools and formats, and what is refused."""

import json
from dataclasses import replace

import msgspec
import pytest

from services.gateway.errors import ApiError, InvalidRequest
from services.gateway.generation import Delta, Usage
from services.gateway.replies.reply import ReplyHead
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.response_items import read_input
from services.gateway.schemas.responses import read_response
from shared import wire
from shared.reasoning_format import ReasoningFormat
from tests.support.gateway_terms import LIMITS, TERMS

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "name": "get_weather", "description": "The weather", "parameters": CITY, "strict": True},
    {"type": "function", "name": "get_time"},
]
HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
ANSWER = {"type": "function_call_output", "call_id": "c1", "output": "7"}


class History:
    """One response, `resp_1`, that is none by default."""

    def __init__(self, *items):
        self.items = items

    def conversation(self, name):
        if name == "resp_1" and self.items:
            return self.items
        raise InvalidRequest("not there", "previous_response_id", "previous_response_not_found")

    def item(self, item_id):
        for item in self.items:
            if item["id"] == item_id:
                return item
        raise InvalidRequest("not there", "id", "item_not_found")


NO_HISTORY = History()


def read(input_="x", history=NO_HISTORY, **fields):
    return read_response(msgspec.json.encode({"input": input_, **fields}), TERMS, history)


def request(input_="x", **fields):
    return read(input_, **fields).call.parts[0].request


def refusal(input_="x", **fields):
    with pytest.raises(ApiError) as caught:
        read(input_, **fields)
    return caught.value.error


def messages(*items, **fields):
    return [(message.role, message.content) for message in request(list(items), **fields).messages]


def listed(*items):
    return read_input(list(items), LIMITS, NO_HISTORY.item)


def user(content):
    return {"role": "user", "content": content}


def test_text_is_the_users_message():
    assert request("Hi").messages == (wire.ChatMessage("user", "Hi"),)


def test_instructions_come_first():
    assert messages(user("Hi"), instructions="Be kind.") == [("system", "Be kind."), ("user", "Hi")]


def test_parts_and_roles():
    assert messages(
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        user([{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]),
        {"role": "assistant", "content": [{"type": "output_text", "text": "three", "annotations": []}]},
    ) == [("system", "Be kind."), ("user", "one\ntwo"), ("assistant", "three")]


def test_calls_join_the_message_before_them():
    second = CALL | {"call_id": "c2", "arguments": "{cut"}
    said = {"role": "assistant", "content": "I look."}
    first, answer, alone = request([said, CALL, second, ANSWER, CALL]).messages
    assert (first.role, first.content) == ("assistant", "I look.")
    assert first.extra["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{cut"}},
    ]
    assert answer == wire.ChatMessage("tool", "7", {"tool_call_id": "c1"})
    assert (alone.content, len(alone.extra["tool_calls"])) == ("", 1)


def test_an_answer_of_parts_is_their_text():
    answer = ANSWER | {"output": [{"type": "input_text", "text": "sun"}, {"type": "input_text", "text": "wind"}]}
    assert messages(CALL, answer)[1] == ("tool", "sun\nwind")


def test_reasoning_is_not_shown():
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "…"}
    assert messages(user("Hi"), reasoning, user("There")) == [("user", "Hi"), ("user", "There")]


def test_items_are_listed_with_ids_and_keep_those_they_have():
    first, second = listed(user("Hi"), {"role": "assistant", "content": "Yes", "id": "msg_1"})
    assert first["id"].startswith("msg_")
    assert first["content"] == [{"type": "input_text", "text": "Hi"}]
    assert (second["id"], second["content"][0]["type"]) == ("msg_1", "output_text")


def test_it_goes_on_from_an_earlier_response_without_its_instructions():
    earlier = History(*listed(user("Hi"), {"role": "assistant", "content": "Yes?"}))
    asked = read("More", history=earlier, previous_response_id="resp_1")
    told = [message.content for message in asked.call.parts[0].request.messages]
    assert told == ["Hi", "Yes?", "More"]
    assert [item["content"][0]["text"] for item in asked.items] == told


def test_an_item_can_stand_for_one_of_an_earlier_output():
    earlier = History(*listed(CALL | {"id": "fc_1"}))
    items = [user("Hi"), {"type": "item_reference", "id": "fc_1"}, ANSWER]
    told = read(items, history=earlier).call.parts[0].request.messages
    assert told[1].extra["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}


def test_flat_tools_mean_what_chats_tools_mean():
    nested = [
        {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}} for tool in TOOLS
    ]
    chat = {"messages": [user("x")], "tools": nested}
    named = {"type": "function", "function": {"name": "get_time"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    flat = {"type": "function", "name": "get_time"}
    for choice, flat_choice in [
        *((word, word) for word in ("auto", "required", "none")),
        (named, flat),
        (allowed, {"type": "allowed_tools", "mode": "required", "tools": [flat]}),
    ]:
        theirs = read_chat(msgspec.json.encode(chat | {"tool_choice": choice}), TERMS).parts[0].request
        ours = request(tools=TOOLS, tool_choice=flat_choice)
        assert (ours.tools, ours.constraint) == (theirs.tools, theirs.constraint)


def test_one_call_at_a_time():
    source = request(tools=TOOLS, parallel_tool_calls=False).constraint.source
    assert json.loads(source)["format"]["stop_after_first"]


def test_formats():
    schema = {"type": "json_schema", "name": "city", "schema": CITY, "strict": False}
    assert request(text={"format": schema}).constraint == wire.Constraint(
        "json_schema", msgspec.json.encode(CITY).decode(), strict=False
    )
    assert request(text={"format": {"type": "json_object"}}).constraint.kind == "json_object"
    assert request(text={"format": {"type": "text"}}).constraint is None
    assert request(text={"verbosity": "medium"}).constraint is None


def test_later_stages_places_are_the_clients():
    part = read(text={"format": {"type": "json_schema", "name": "n", "schema": CITY}}).call.parts[0]
    assert part.name_of("constraint.properties.city") == "text.format.schema.properties.city"
    part = read(tools=TOOLS).call.parts[0]
    place = "constraint.format.tags.1.content.json_schema"
    assert part.name_of(f"{place}.type") == "tools.1.parameters.type"
    assert part.name_of("prompt") == "input"


def test_sampling_and_extras():
    asked = request(
        max_output_tokens=5, temperature=0.5, top_p=0.9, top_k=3, seed=7, stop=["END"], priority=2, timeout=9
    )
    assert (asked.max_new_tokens, asked.priority, asked.timeout_s, asked.text.stop) == (5, 2, 9, ("END",))
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (0.5, 0.9, 3)
    assert request(regex="[a-z]+").constraint == wire.Constraint("regex", "[a-z]+")
    assert request(cache_salt="mine").namespace != request().namespace
    assert request(chat_template_kwargs={"a": 1}).template_options == {"chat_template_kwargs": {"a": 1}}


def test_logprobs_are_asked_for_by_include():
    include = ["message.output_text.logprobs", "reasoning.encrypted_content"]
    sampling = request(include=include, top_logprobs=3).sampling
    assert (sampling.logprobs, sampling.top_logprobs) == (True, 3)
    assert not request(include=include[1:]).sampling.logprobs


def test_what_is_harmless_is_taken():
    fields = {"service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s", "max_tool_calls": 3}
    request(**fields, truncation="disabled", reasoning={"effort": None, "summary": None}, conversation=None)


def test_a_thinking_models_thoughts_are_told_apart():
    terms = replace(TERMS, reasoning=ReasoningFormat(is_opened=True))
    reply = read_response(b'{"input": "x"}', terms, NO_HISTORY).call.reply(HEAD)
    reply.events(0, Delta("Hm.</think>Yes.", (1,), Usage()))
    assert [item["type"] for item in reply.response()["output"]] == ["reasoning", "message"]


def test_what_a_response_repeats():
    fields = {"metadata": {"a": "b"}, "instructions": "Be kind.", "temperature": 0.5, "tools": TOOLS, "user": "u"}
    response = read(**fields).call.reply(HEAD).response()
    assert {name: response[name] for name in fields} == fields
    assert response["text"] == {"format": {"type": "text"}}
    shown = read(text={"format": {"type": "json_schema"}}).call.reply(HEAD).response()["text"]["format"]
    assert shown == {"type": "json_schema", "name": "response", "schema": {}}


TEXT = {"type": "input_text", "text": ""}
IMAGE = {"type": "input_image", "image_url": "data:,"}
WEB = {"type": "web_search"}


@pytest.mark.parametrize(
    ("input_", "fields", "param", "code"),
    [
        ([], {}, "input", "invalid_value"),
        ([user("x"), {"role": "robot", "content": "x"}], {}, "input.1.role", "invalid_value"),
        ([{"role": "user"}], {}, "input.0.content", "missing_required_parameter"),
        ([user([IMAGE])], {}, "input.0.content.0.type", "unsupported_parameter"),
        ([user([{"type": "input_text", "text": 3}])], {}, "input.0.content.0.text", "invalid_value"),
        ([{"type": "item_reference", "id": "x"}], {}, "input.0.id", "item_not_found"),
        ([{"type": "web_search_call", "id": "x"}], {}, "input.0.type", "unsupported_parameter"),
        ([CALL | {"arguments": None}], {}, "input.0.arguments", "missing_required_parameter"),
        ([CALL, ANSWER | {"output": [IMAGE]}], {}, "input.1.output.0.type", "unsupported_parameter"),
        ([user("x")] * 300, {}, "input", "context_length_exceeded"),
        (
            [CALL, ANSWER | {"output": [{"type": "input_text", "text": ""}] * 300}],
            {},
            "input",
            "context_length_exceeded",
        ),
        ([user("x"), CALL | {"arguments": " " * 300_000}], {}, "input.1.arguments", "invalid_value"),
        ("x", {"tools": [WEB]}, "tools.0.type", "unsupported_parameter"),
        ("x", {"tools": [TOOLS[0], TOOLS[0]]}, "tools.1.name", "invalid_value"),
        ("x", {"tools": [{"type": "function"}]}, "tools.0.name", "missing_required_parameter"),
        ("x", {"tools": [TOOLS[0] | {"parameters": {"type": "array"}}]}, "tools.0.parameters.type", "invalid_value"),
        ("x", {"tools": [TOOLS[0] | {"defer_loading": True}]}, "tools.0.defer_loading", "unsupported_parameter"),
        ("x", {"tools": TOOLS, "tool_choice": WEB}, "tool_choice.type", "unsupported_parameter"),
        ("x", {"tools": TOOLS, "tool_choice": {"type": "function", "name": "g"}}, "tool_choice.name", "invalid_value"),
        ("x", {"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ("x", {"text": {"format": {"type": "sound"}}}, "text.format", "invalid_value"),
        ("x", {"text": {"format": {}}}, "text.format.type", "missing_required_parameter"),
        ("x", {"text": {"format": {"type": "json_schema", "schema": 3}}}, "text.format.schema", "invalid_value"),
        ("x", {"text": {"verbosity": "low"}}, "text.verbosity", "unsupported_parameter"),
        ("x", {"text": {"format": {"type": "json_object"}}, "regex": "x"}, "regex", "invalid_value"),
        ("x", {"include": ["web_search_call.results"]}, "include.0", "unsupported_parameter"),
        ("x", {"top_logprobs": 3}, "top_logprobs", "invalid_value"),
        ("x", {"stream_options": {}}, "stream_options", "invalid_value"),
        ("x", {"max_tokens": 3}, "max_tokens", "unsupported_parameter"),
        ("x", {"reasoning": {"effort": "high"}}, "reasoning", "unsupported_parameter"),
        ("x", {"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ("x", {"metadata": {"a": "x" * 600}}, "metadata", "invalid_value"),
        ("x", {"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
        ("x", {"min_tokens": 9, "max_output_tokens": 3}, "min_tokens", "invalid_value"),
    ],
)
def test_what_is_refused(input_, fields, param, code):
    error = refusal(input_, **fields)
    assert (error.param, error.code, error.status) == (param, code, 400)
    assert "response_format" not in error.message
