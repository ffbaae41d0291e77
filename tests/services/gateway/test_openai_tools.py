"""OpenAI's official client against the gateway: the calls of functions that it finds in a reply."""

import json

import openai
import pytest
from pydantic import BaseModel

from shared.tool_format import HERMES
from tests.support.served_gateway import serving

QUESTION = [{"role": "user", "content": "Weather in Paris and Rome?"}]
CALLS = HERMES.separator.join(HERMES.call("get_weather", f'{{"city": "{city}"}}') for city in ("Paris", "Rome"))


class Weather(BaseModel):
    city: str


TOOLS = [openai.pydantic_function_tool(Weather, name="get_weather")]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        found.pipeline.pieces = tuple(CALLS[place : place + 5] for place in range(0, len(CALLS), 5))
        yield found


@pytest.fixture
async def client(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as found:
        yield found


@pytest.fixture
def asked():
    return {"model": "tiny", "messages": QUESTION, "tools": TOOLS}


def cities(message):
    return [json.loads(call.function.arguments)["city"] for call in message.tool_calls]


async def test_calls(client, asked):
    (choice,) = (await client.chat.completions.create(**asked, tool_choice="required")).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert cities(choice.message) == ["Paris", "Rome"]


async def test_calls_into_pydantic_models(client, asked):
    (choice,) = (await client.chat.completions.parse(**asked)).choices
    assert [call.function.parsed_arguments for call in choice.message.tool_calls] == [
        Weather(city="Paris"),
        Weather(city="Rome"),
    ]


async def test_a_stream_of_calls(client, asked):
    async with client.chat.completions.stream(**asked) as stream:
        done = [event async for event in stream if event.type == "tool_calls.function.arguments.done"]
        (choice,) = (await stream.get_final_completion()).choices
    assert [(event.index, event.parsed_arguments) for event in done] == [
        (0, Weather(city="Paris")),
        (1, Weather(city="Rome")),
    ]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert len({call.id for call in choice.message.tool_calls}) == 2


async def test_a_cut_call(client, asked):
    (choice,) = (await client.chat.completions.create(**asked, max_tokens=11)).choices
    assert choice.finish_reason == "length"
    assert '{"city": "Paris"}'.startswith(choice.message.tool_calls[0].function.arguments)


async def test_where_no_calls_are_wanted_the_text_stays(client, asked):
    (choice,) = (await client.chat.completions.create(**asked, tool_choice="none")).choices
    assert (choice.finish_reason, choice.message.content, choice.message.tool_calls) == ("stop", CALLS, None)
