"""OpenAI's Python client against a real server's /v1/responses: streamed as whole, gone on from, in the background."""

import json
import time
from typing import Literal

import pytest
from pydantic import BaseModel, Field

MODEL = "SmolLM2-135M-Instruct"
QUESTION = "What is the weather in Paris?"
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Place(BaseModel):
    """Bounded throughout, so that a small model comes to an end."""

    kind: Literal["city", "village"]
    inhabitants: int = Field(ge=0, le=50_000_000)


@pytest.fixture
def ask(client):
    """Asks whole and in a stream, at temperature 0, and gives the one response that both are."""

    def ask(**more):
        arguments = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 60} | more
        whole = client.responses.create(**arguments)
        *_, last = client.responses.create(**arguments, stream=True)
        assert said(last.response) == said(whole)
        return whole

    return ask


def said(response):
    calls = [(item.name, item.arguments) for item in response.output if item.type == "function_call"]
    return response.status, response.output_text, calls


def until_it_is_done(client, response):
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def test_text(ask):
    response = ask(max_output_tokens=8)
    assert (response.status, response.usage.output_tokens) == ("incomplete", 8)
    assert response.output_text


def test_a_tool_and_its_answer(client, ask):
    response = ask(tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    (call,) = response.output
    assert json.loads(call.arguments)["city"] in ("Paris", "Rome", "Oslo")
    answer = {"type": "function_call_output", "call_id": call.call_id, "output": "It is sunny, 21 degrees."}
    after = client.responses.create(
        model=MODEL, input=[answer], previous_response_id=response.id, temperature=0, max_output_tokens=20
    )
    assert after.output_text
    listed = client.responses.input_items.list(after.id, order="asc").data
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output"]


def test_a_pydantic_model(client):
    response = client.responses.parse(
        model=MODEL, input="Describe Paris.", text_format=Place, temperature=0, max_output_tokens=60
    )
    assert isinstance(response.output_parsed, Place)


def test_a_conversation_goes_on_in_the_cache(client):
    first = client.responses.create(model=MODEL, input="Tell me of the sea.", temperature=0, max_output_tokens=24)
    second = client.responses.create(
        model=MODEL, input="Go on.", previous_response_id=first.id, temperature=0, max_output_tokens=8
    )
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens


def test_in_the_background(client, ask):
    started = client.responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=60, background=True)
    assert started.status in ("queued", "in_progress")
    assert said(until_it_is_done(client, started)) == said(ask())


def test_cancelled_in_the_background(client):
    endless = {"ignore_eos": True, "regex": "[a-z ]{4000}"}
    started = client.responses.create(model=MODEL, input=QUESTION, background=True, extra_body=endless)
    cancelled = client.responses.cancel(started.id)
    assert (cancelled.status, client.responses.retrieve(started.id).status) == ("cancelled", "cancelled")
