"""OpenAI's official client against the gateway: what it parses and which exceptions it raises."""

import json

import openai
import pydantic
import pytest

from shared import wire
from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi you"}]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as found:
        yield found


@pytest.fixture
async def client(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-1", max_retries=0) as found:
        yield found


async def test_chat(client):
    reply = await client.chat.completions.create(model="tiny", messages=HELLO, max_completion_tokens=50)
    assert reply.choices[0].message.content == "Hello, world!"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.total_tokens == 10
    assert reply.usage.prompt_tokens_details.cached_tokens == 2
    assert reply._request_id is not None


async def test_a_reply_can_be_sent_back_as_it_came(client):
    reply = await client.chat.completions.create(model="tiny", messages=HELLO)
    messages = [*HELLO, reply.choices[0].message, {"role": "user", "content": "More"}]
    assert (await client.chat.completions.create(model="tiny", messages=messages)).usage.prompt_tokens == 23


async def test_a_chat_stream_with_usage(client):
    stream = await client.chat.completions.create(
        model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert content == "Hello, world!"
    assert [chunk.choices[0].delta.role for chunk in chunks if chunk.choices][:2] == ["assistant", None]
    assert chunks[-1].usage.completion_tokens == 4
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_the_clients_own_accumulation_of_a_stream(client):
    async with client.chat.completions.stream(model="tiny", messages=HELLO) as stream:
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == "Hello, world!"
    assert completion.choices[0].finish_reason == "stop"


async def test_logprobs(client):
    reply = await client.chat.completions.create(model="tiny", messages=HELLO, logprobs=True, top_logprobs=2)
    content = reply.choices[0].logprobs.content
    assert [entry.token for entry in content] == ["Hello", ",", " world", "!"]
    assert bytes(content[0].bytes) == b"Hello"
    assert [top.token for top in content[0].top_logprobs] == ["t0", "t1"]
    reply = await client.completions.create(model="tiny", prompt="x", logprobs=1)
    logprobs = reply.choices[0].logprobs
    assert logprobs.text_offset == [0, 5, 6, 12]
    assert logprobs.top_logprobs[1] == {"t0": 0.0, ",": -0.25}


async def test_completions(client):
    reply = await client.completions.create(model="tiny", prompt=[1, 2, 3], max_tokens=2, stop=["END"])
    assert (reply.choices[0].text, reply.choices[0].finish_reason) == ("Hello,", "length")
    stream = await client.completions.create(model="tiny", prompt="x", stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "Hello, world!"


async def test_models(client):
    assert [model.id async for model in client.models.list()] == ["tiny"]
    assert (await client.models.retrieve("tiny")).owned_by == "sapwood"


async def test_what_the_client_sends_beyond_openais_fields(client, served):
    extra = {"top_k": 5, "min_p": 0.1, "ignore_eos": True, "cache_salt": "mine"}
    await client.chat.completions.create(model="tiny", messages=HELLO, extra_body=extra, user="u", seed=3)
    (encode,) = served.pipeline.encodes
    assert (encode.sampling.top_k, encode.sampling.min_p, encode.sampling.seed) == (5, 0.1, 3)


class Book(pydantic.BaseModel):
    title: str
    year: int


WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


async def test_a_pydantic_model_as_the_format(client, served):
    served.pipeline.pieces = ('{"title": "Moby', '-Dick", "year"', ": 1851}")
    reply = await client.chat.completions.parse(model="tiny", messages=HELLO, response_format=Book)
    assert reply.choices[0].message.parsed == Book(title="Moby-Dick", year=1851)
    (encode,) = served.pipeline.encodes
    assert (encode.constraint.kind, encode.constraint.strict) == ("json_schema", True)
    assert list(json.loads(encode.constraint.source)["properties"]) == ["title", "year"]


async def test_tools_of_a_pydantic_model(client, served):
    tools = [openai.pydantic_function_tool(Book)]
    await client.chat.completions.create(model="tiny", messages=HELLO, tools=tools, tool_choice="required")
    (encode,) = served.pipeline.encodes
    assert encode.tools[0]["function"]["name"] == "Book"
    (tag,) = json.loads(encode.constraint.source)["format"]["tags"]
    assert tag["content"]["strict"]
    assert list(tag["content"]["json_schema"]["properties"]) == ["title", "year"]


async def test_a_conversation_with_a_call_and_its_answer(client, served):
    served.pipeline.pieces = ('<tool_call>\n{"name": "get_weather", "arguments": {"city"', ': "Paris"}}\n</tool_call>')
    named = {"type": "function", "function": {"name": "get_weather"}}
    asked = {"model": "tiny", "tools": [WEATHER]}
    message = (await client.chat.completions.create(messages=HELLO, tool_choice=named, **asked)).choices[0].message
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    answer = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    await client.chat.completions.create(messages=[*HELLO, message, answer], tool_choice="none", **asked)
    _, encode = served.pipeline.encodes
    assert encode.messages[1].extra["tool_calls"][0]["function"]["arguments"] == {"city": "Paris"}
    assert encode.messages[2] == wire.ChatMessage("tool", "sunny", {"tool_call_id": call.id})
    assert (encode.tools, encode.constraint) == (None, None)


async def test_constraints_of_our_own(client, served):
    await client.chat.completions.create(model="tiny", messages=HELLO, extra_body={"regex": "[a-z]+"})
    await client.completions.create(model="tiny", prompt="x", extra_body={"choices": ["a", "b"]})
    kinds = [encode.constraint.kind for encode in served.pipeline.encodes]
    assert kinds == ["regex", "choices"]


@pytest.mark.parametrize(
    ("arguments", "exception", "param"),
    [
        ({"model": "tiny", "temperature": 5}, openai.BadRequestError, "temperature"),
        ({"model": "other"}, openai.NotFoundError, "model"),
        ({"model": "tiny", "response_format": {"type": "sound"}}, openai.BadRequestError, "response_format"),
        ({"model": "tiny", "functions": [{"name": "f"}]}, openai.BadRequestError, "functions"),
        ({"model": "tiny", "tools": [{"type": "function"}]}, openai.BadRequestError, "tools.0.function"),
    ],
)
async def test_refusals_are_its_own_exceptions(client, arguments, exception, param):
    with pytest.raises(exception) as caught:
        await client.chat.completions.create(messages=HELLO, **arguments)
    assert caught.value.param == param
    assert caught.value.request_id is not None


async def test_a_wrong_key(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-2", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


@pytest.mark.parametrize(
    ("error", "exception"),
    [
        (wire.Error("the queue is full", "overloaded", status=429, retry_after_s=1.0), openai.RateLimitError),
        (wire.Error("broken", "internal_error", status=500), openai.InternalServerError),
    ],
)
async def test_too_much_and_too_bad(client, served, error, exception):
    served.pipeline.reject_error = error
    with pytest.raises(exception):
        await client.completions.create(model="tiny", prompt="x")


async def test_an_error_in_a_stream(client, served):
    served.pipeline.finish_error = wire.Error("the matcher broke", "constraint_failed", status=500)
    stream = await client.chat.completions.create(model="tiny", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="the matcher broke"):
        async for _ in stream:
            pass
