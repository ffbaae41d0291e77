"""OpenAI's own Python client against a real server: tools, and outputs that obey a schema or a pattern."""

import json
import re
from typing import Literal

import jsonschema
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from pydantic import BaseModel, Field

MODEL = "SmolLM2-135M-Instruct"
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
PARAMETERS = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Paris", "Rome", "Oslo"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
    "get_time": {
        "type": "object",
        "properties": {"zone": {"type": "string", "pattern": "^UTC[+-][0-9]{1,2}$"}},
        "required": ["zone"],
        "additionalProperties": False,
    },
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Calls {name}.", "parameters": parameters}}
    for name, parameters in PARAMETERS.items()
]
NAMED = {"type": "function", "function": {"name": "get_time"}}


class Place(BaseModel):
    """Bounded throughout, so that a small model comes to an end."""

    kind: Literal["city", "village"]
    inhabitants: int = Field(ge=0, le=50_000_000)
    languages: list[Literal["French", "Italian", "Norwegian"]] = Field(max_length=3)


@pytest.fixture
def ask(client):
    """Asks whole and in a stream, at temperature 0, and gives the one choice that both are."""

    def ask(**more):
        arguments = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 120} | more
        (whole,) = client.chat.completions.create(**arguments).choices
        stream = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(**arguments, stream=True):
            stream.handle_chunk(chunk)
        (streamed,) = stream.current_completion_snapshot.choices
        assert said(streamed) == said(whole)
        return whole

    return ask


def said(choice):
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    return choice.finish_reason, choice.message.content or None, calls  # a stream has no chunk for an empty text


def checked(call):
    """The call's arguments, which obey the function's schema."""
    arguments = json.loads(call.function.arguments)
    jsonschema.validate(arguments, PARAMETERS[call.function.name])
    return arguments


def test_a_required_call(ask):
    choice = ask(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert re.fullmatch("call_[0-9a-f]{24}", call.id)
    checked(call)


def test_required_calls_as_many_as_the_model_likes(ask):
    choice = ask(tools=TOOLS, tool_choice="required")
    *complete, last = choice.message.tool_calls
    for call in complete:
        checked(call)
    if choice.finish_reason == "tool_calls":
        checked(last)
    else:
        assert choice.finish_reason == "length"


def test_a_named_function(ask):
    choice = ask(tools=TOOLS, tool_choice=NAMED)
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, call.function.name) == ("tool_calls", "get_time")
    assert set(checked(call)) == {"zone"}


def test_the_model_may_choose(ask):
    choice = ask(tools=TOOLS)
    calls = choice.message.tool_calls or []
    for call in calls if choice.finish_reason != "length" else calls[:-1]:
        checked(call)
    assert calls or choice.message.content
    assert "<tool_call>" not in (choice.message.content or "") or choice.finish_reason == "length"


def test_no_call_where_none_is_wanted(ask):
    choice = ask(tools=TOOLS, tool_choice="none")
    assert choice.message.tool_calls is None
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")


def test_a_call_that_is_cut_is_a_cut_output(ask):
    assert ask(tools=TOOLS, tool_choice=NAMED, max_tokens=3).finish_reason == "length"


def test_a_function_without_parameters(ask):
    tool = {"type": "function", "function": {"name": "f"}}
    (call,) = ask(tools=[tool], tool_choice="required", parallel_tool_calls=False).message.tool_calls
    assert json.loads(call.function.arguments) == {}


def test_the_chunks_of_a_call(client):
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, tools=TOOLS, tool_choice=NAMED, temperature=0, stream=True
    )
    choices = [chunk.choices[0] for chunk in stream]
    first, *others = [call for choice in choices for call in choice.delta.tool_calls or []]
    assert [choice.delta.role for choice in choices] == ["assistant"] + [None] * (len(choices) - 1)
    assert [choice.finish_reason for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    assert (first.index, first.type, first.function.name) == (0, "function", "get_time")
    assert all((call.index, call.id, call.type, call.function.name) == (0, None, None, None) for call in others)
    json.loads("".join(call.function.arguments for call in [first, *others]))


def test_an_answer_is_sent_back(client, ask):
    choice = ask(tools=TOOLS, tool_choice=NAMED)
    (call,) = choice.message.tool_calls
    answer = {"role": "tool", "tool_call_id": call.id, "content": "12:30"}
    reply = client.chat.completions.create(
        model=MODEL, messages=[*QUESTION, choice.message, answer], tools=TOOLS, tool_choice="none", max_tokens=10
    )
    assert reply.choices[0].message.content


def test_every_token_of_a_call_has_its_logprob(client):
    arguments = {"model": MODEL, "messages": QUESTION, "tools": TOOLS, "tool_choice": NAMED, "logprobs": True}
    reply = client.chat.completions.create(**arguments, temperature=0)
    text = b"".join(bytes(entry.bytes) for entry in reply.choices[0].logprobs.content).decode()
    assert reply.choices[0].message.tool_calls[0].function.arguments in text
    chunks = client.chat.completions.create(**arguments, temperature=0, stream=True)
    logprobs = [chunk.choices[0].logprobs for chunk in chunks]
    assert b"".join(bytes(entry.bytes) for some in logprobs if some for entry in some.content).decode() == text


def test_the_clients_own_function_tools(client):
    tool = openai.pydantic_function_tool(Place, name="note_place")
    with client.chat.completions.stream(
        model=MODEL, messages=QUESTION, tools=[tool], tool_choice="required", parallel_tool_calls=False, temperature=0
    ) as stream:
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Place)


def test_an_output_as_a_pydantic_model(client):
    reply = client.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=Place, temperature=0)
    assert isinstance(reply.choices[0].message.parsed, Place)
    assert reply.choices[0].finish_reason == "stop"


def test_a_stream_as_a_pydantic_model(client):
    with client.chat.completions.stream(
        model=MODEL, messages=QUESTION, response_format=Place, temperature=1, seed=7
    ) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Place)


def test_a_schema_and_a_limit(ask):
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 500}
    choice = ask(response_format={"type": "json_schema", "json_schema": {"name": "numbers", "schema": schema}})
    assert choice.finish_reason == "length"


@pytest.mark.parametrize("pattern", [r"\d{3}-\d{4}", r"(yes|no), because [a-z ]{1,20}\.", r"[A-Z]\w{2,8}"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_pattern(ask, pattern, temperature):
    choice = ask(extra_body={"regex": pattern}, temperature=temperature, seed=3)
    assert choice.finish_reason == "stop"
    assert re.fullmatch(pattern, choice.message.content)


def test_choices(ask):
    assert ask(extra_body={"choices": ["Paris", "Parma", "Rome"]}).message.content in {"Paris", "Parma", "Rome"}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice.function.name"),
        ({"extra_body": {"regex": "("}}, "regex"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nonsense"}}}},
            "response_format.json_schema.schema.type",
        ),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": 5}}}}}
                ]
            },
            "tools.0.function.parameters.properties.a.type",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(client, more, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=5, **more)
    assert caught.value.param == param
    assert client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1).choices
