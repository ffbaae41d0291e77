"""OpenAI's official client against /v1/responses: what it parses, streams, stores and cancels."""

import asyncio
import json

import openai
import pydantic
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from shared import wire
from shared.tool_format import HERMES
from tests.support.served_gateway import serving

CALLS = HERMES.separator.join(HERMES.call("get_weather", f'{{"city": "{city}"}}') for city in ("Paris", "Rome"))
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


class Weather(pydantic.BaseModel):
    city: str


class Book(pydantic.BaseModel):
    title: str
    year: int


TOOLS = [openai.pydantic_function_tool(Weather, name="get_weather")["function"] | {"type": "function"}]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1", "sk-2"), max_stored_responses=3) as found:
        yield found


@pytest.fixture
async def client(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-1", max_retries=0) as found:
        yield found


@pytest.fixture
def calling(served):
    served.pipeline.pieces = tuple(CALLS[place : place + 5] for place in range(0, len(CALLS), 5))


def strict(response):
    """The same, if it obeys the client's types to the letter."""
    return Response.model_validate(json.loads(response.model_dump_json(by_alias=True, exclude_unset=True)), strict=True)


def cities(response):
    return [json.loads(item.arguments)["city"] for item in response.output if item.type == "function_call"]


async def test_text(client):
    response = strict(await client.responses.create(model="tiny", input="Hi you", metadata={"a": "b"}))
    assert (response.output_text, response.status, response.id[:5]) == ("Hello, world!", "completed", "resp_")
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (6, 2)
    assert (response.usage.output_tokens, response.usage.total_tokens) == (4, 10)
    assert (response.metadata, response.store, response.tools) == ({"a": "b"}, True, [])
    assert response.completed_at >= response.created_at


async def test_a_response_that_is_cut(client):
    response = strict(await client.responses.create(model="tiny", input="Hi", max_output_tokens=2))
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (response.output_text, response.output[0].status) == ("Hello,", "incomplete")
    assert response.completed_at is None


async def test_the_events_of_a_stream(client):
    stream = await client.responses.create(model="tiny", input="Hi you", stream=True)
    events = [event async for event in stream]
    for event in events:
        EVENT.validate_python(json.loads(event.model_dump_json(by_alias=True, exclude_unset=True)), strict=True)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events if event.type != "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert {event.response.status for event in events[:2]} == {"in_progress"}
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello, world!"
    assert events[-1].response.output_text == "Hello, world!"
    assert events[-1].response.usage.output_tokens == 4


async def test_the_clients_own_accumulation(client):
    async with client.responses.stream(model="tiny", input="Hi you") as stream:
        response = await stream.get_final_response()
    assert (response.output_text, response.status) == ("Hello, world!", "completed")


async def test_a_stream_that_is_cut(client):
    stream = await client.responses.create(model="tiny", input="Hi", stream=True, max_output_tokens=2)
    *_, last = [event async for event in stream]
    assert (last.type, last.response.output_text) == ("response.incomplete", "Hello,")


async def test_an_error_in_a_stream_is_an_event_and_an_exception(client, served):
    served.pipeline.finish_error = wire.Error("the matcher broke", "constraint_failed", status=500)
    stream = await client.responses.create(model="tiny", input="Hi", stream=True)
    with pytest.raises(openai.APIError, match="the matcher broke"):
        async for _ in stream:
            pass
    async with served.client.post(
        "/v1/responses", json={"input": "Hi", "stream": True}, headers={"Authorization": "Bearer sk-1"}
    ) as response:
        *_, last = (await response.text()).strip().split("\n\n")
    name, data = last.split("\n")
    event = EVENT.validate_json(data.removeprefix("data: "), strict=True)
    assert (name, event.code, event.message) == ("event: error", "constraint_failed", "the matcher broke")
    assert event.sequence_number > 0


async def test_a_pydantic_model_as_the_format(client, served):
    served.pipeline.pieces = ('{"title": "Moby', '-Dick", "year"', ": 1851}")
    response = await client.responses.parse(model="tiny", input="A book", text_format=Book)
    assert response.output_parsed == Book(title="Moby-Dick", year=1851)
    strict(response)
    (encode,) = served.pipeline.encodes
    assert (encode.constraint.kind, encode.constraint.strict) == ("json_schema", True)
    async with client.responses.stream(model="tiny", input="A book", text_format=Book) as stream:
        assert (await stream.get_final_response()).output_parsed == Book(title="Moby-Dick", year=1851)


async def test_calls(client, calling, served):
    response = strict(
        await client.responses.create(model="tiny", input="Weather?", tools=TOOLS, tool_choice="required")
    )
    assert cities(response) == ["Paris", "Rome"]
    assert len({item.call_id for item in response.output}) == len({item.id for item in response.output}) == 2
    assert {item.status for item in response.output} == {"completed"}
    (encode,) = served.pipeline.encodes
    assert encode.tools[0]["function"]["name"] == "get_weather"


async def test_a_stream_of_calls(client, calling):
    async with client.responses.stream(model="tiny", input="Weather?", tools=TOOLS) as stream:
        events = [event async for event in stream]
        response = await stream.get_final_response()
    done = [event.arguments for event in events if event.type == "response.function_call_arguments.done"]
    assert done == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert [item.parsed_arguments for item in response.output] == [{"city": "Paris"}, {"city": "Rome"}]
    added = [event.output_index for event in events if event.type == "response.output_item.added"]
    assert added == [0, 1]


async def test_a_cut_call_is_incomplete(client, calling):
    response = await client.responses.create(model="tiny", input="Weather?", tools=TOOLS, max_output_tokens=11)
    assert (response.status, response.output[0].status) == ("incomplete", "incomplete")
    assert '{"city": "Paris"}'.startswith(response.output[0].arguments)


async def test_a_conversation_with_calls_sent_back(client, calling, served):
    response = await client.responses.create(model="tiny", input="Weather?", tools=TOOLS)
    answers = [{"type": "function_call_output", "call_id": item.call_id, "output": "sunny"} for item in response.output]
    sent = [{"role": "user", "content": "Weather?"}, *response.output, *answers]
    await client.responses.create(model="tiny", input=sent)
    *_, encode = served.pipeline.encodes
    assert [message.role for message in encode.messages] == ["user", "assistant", "tool", "tool"]
    calls = encode.messages[1].extra["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert [message.extra["tool_call_id"] for message in encode.messages[2:]] == [call["id"] for call in calls]


async def test_a_parsed_response_can_be_sent_back(client, served):
    served.pipeline.pieces = ('{"title": "Emma", "year": 1815}',)
    response = await client.responses.parse(model="tiny", input="A book", text_format=Book)
    await client.responses.create(model="tiny", input=[*response.output, {"role": "user", "content": "Another"}])
    *_, encode = served.pipeline.encodes
    assert encode.messages[0].content == '{"title": "Emma", "year": 1815}'


async def test_logprobs(client):
    asked = {"model": "tiny", "input": "Hi", "top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    response = strict(await client.responses.create(**asked))
    logprobs = response.output[0].content[0].logprobs
    assert [entry.token for entry in logprobs] == ["Hello", ",", " world", "!"]
    assert [top.token for top in logprobs[0].top_logprobs] == ["t0", "t1"]
    events = [event async for event in await client.responses.create(**asked, stream=True)]
    tokens = [entry.token for event in events if event.type == "response.output_text.delta" for entry in event.logprobs]
    assert tokens == ["Hello", ",", " world", "!"]


async def test_going_on_from_an_earlier_response(client, served):
    first = await client.responses.create(model="tiny", input="Hi you", instructions="Be kind.")
    second = await client.responses.create(model="tiny", input="More", previous_response_id=first.id)
    await client.responses.create(model="tiny", input="Yet more", previous_response_id=second.id, stream=True)
    await served.until(lambda: len(served.pipeline.encodes) == 3)
    told = [[(message.role, message.content) for message in encode.messages] for encode in served.pipeline.encodes]
    assert told[0] == [("system", "Be kind."), ("user", "Hi you")]
    assert told[1] == [("user", "Hi you"), ("assistant", "Hello, world!"), ("user", "More")]
    assert told[2] == [*told[1], ("assistant", "Hello, world!"), ("user", "Yet more")]


async def test_items_of_an_earlier_output_by_reference(client, calling, served):
    first = await client.responses.create(model="tiny", input="Weather?", tools=TOOLS)
    asked = [{"role": "user", "content": "Weather?"}]
    for item in first.output:
        answer = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        asked += [{"type": "item_reference", "id": item.id}, answer]
    await client.responses.create(model="tiny", input=asked)
    *_, encode = served.pipeline.encodes
    assert [message.role for message in encode.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    await client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="tiny", input=asked)
    assert (caught.value.code, caught.value.param) == ("item_not_found", "input.1.id")


async def test_a_streamed_response_is_stored_by_the_time_it_says_so(client):
    async with client.responses.stream(model="tiny", input="Hi you") as stream:
        async for event in stream:
            if event.type == "response.completed":
                assert (await client.responses.retrieve(event.response.id)).output_text == "Hello, world!"


async def test_reading_deleting_and_forgetting(client):
    responses = [await client.responses.create(model="tiny", input=f"{number}") for number in range(4)]
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(responses[0].id)
    included = ["message.output_text.logprobs"]
    assert strict(await client.responses.retrieve(responses[1].id, include=included)) == strict(responses[1])
    await client.responses.delete(responses[1].id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.delete(responses[1].id)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="tiny", input="x", previous_response_id=responses[1].id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_what_is_not_to_be_stored_is_not(client):
    response = await client.responses.create(model="tiny", input="Hi", store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)


async def test_the_items_that_a_response_goes_on_from(client):
    first = await client.responses.create(model="tiny", input="Hi you")
    second = await client.responses.create(model="tiny", input="More", previous_response_id=first.id)
    items = await client.responses.input_items.list(second.id, limit=2)
    assert [item.content[0].text for item in items.data] == ["More", "Hello, world!"]
    assert [item.content[0].text async for item in items] == ["More", "Hello, world!", "Hi you"]
    oldest = await client.responses.input_items.list(second.id, order="asc", limit=1)
    assert (oldest.data[0].content[0].text, oldest.has_more) == ("Hi you", True)
    with pytest.raises(openai.BadRequestError):
        await client.responses.input_items.list(second.id, after="nothing")


async def test_another_tenants_responses_are_not_there(client, served):
    response = await client.responses.create(model="tiny", input="Hi")
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-2", max_retries=0) as other:
        for refused in (other.responses.retrieve, other.responses.delete, other.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await refused(response.id)
        with pytest.raises(openai.NotFoundError):
            await other.responses.input_items.list(response.id)
        with pytest.raises(openai.BadRequestError):
            await other.responses.create(model="tiny", input="x", previous_response_id=response.id)


async def test_extras_of_our_own(client, served):
    extra = {"top_k": 5, "regex": "[a-z]+", "seed": 3, "priority": 2, "stop": "END"}
    await client.responses.create(model="tiny", input="Hi", extra_body=extra, user="u")
    (encode,) = served.pipeline.encodes
    assert (encode.sampling.top_k, encode.sampling.seed, encode.priority) == (5, 3, 2)
    assert (encode.constraint.source, encode.text.stop) == ("[a-z]+", ("END",))


async def test_a_client_that_leaves_frees_the_work_and_nothing_is_stored(client, served):
    served.pipeline.auto = False
    request = asyncio.create_task(client.responses.create(model="tiny", input="Hi", stream=True))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    stream = await request
    first = await anext(aiter(stream))
    await stream.close()
    await served.until(lambda: not served.pipeline.runs)
    assert served.gateway.progress().running == 0
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.response.id)


@pytest.mark.parametrize(
    ("arguments", "exception", "param"),
    [
        ({"model": "other"}, openai.NotFoundError, "model"),
        ({"temperature": 5}, openai.BadRequestError, "temperature"),
        ({"background": True, "stream": True}, openai.BadRequestError, "stream"),
        ({"background": True, "store": False}, openai.BadRequestError, "store"),
        ({"truncation": "auto"}, openai.BadRequestError, "truncation"),
        ({"previous_response_id": "resp_0"}, openai.BadRequestError, "previous_response_id"),
    ],
)
async def test_refusals_are_its_own_exceptions(client, arguments, exception, param):
    with pytest.raises(exception) as caught:
        await client.responses.create(**{"model": "tiny", "input": "Hi"} | arguments)
    assert caught.value.param == param
    assert caught.value.request_id is not None


async def test_a_stored_response_is_not_streamed_again(client):
    response = await client.responses.create(model="tiny", input="Hi")
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.retrieve(response.id, stream=True)
    assert caught.value.param == "stream"
