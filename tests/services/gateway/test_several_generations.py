"""Requests with several prompts or samples over HTTP, and prompts that are repeated, scored or aborted."""

import asyncio

import pytest

from shared import wire
from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi you"}]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


async def test_samples_are_choices_and_their_prompt_counts_once(served):
    _, reply, headers = await served.post("/v1/chat/completions", {"messages": HELLO, "n": 3, "seed": 5})
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert {choice["message"]["content"] for choice in reply["choices"]} == {"Hello, world!"}
    assert reply["usage"]["completion_tokens"] == 12
    assert reply["usage"]["prompt_tokens"] == len(served.pipeline.submits[0].prompt_token_ids)
    assert sorted(submit.sampling.seed for submit in served.pipeline.submits) == [5, 6, 7]
    names = [f"{headers['x-request-id']}-{number}" for number in range(3)]
    assert sorted(submit.request_id for submit in served.pipeline.submits) == names


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": HELLO, "n": 3}, "n"),
        ("/v1/completions", {"prompt": "Hi", "n": 3}, "n"),
        ("/v1/completions", {"prompt": "Hi", "best_of": 3}, "best_of"),
        ("/generate", {"text": "Hi", "sampling_params": {"n": 3}}, "sampling_params.n"),
    ],
)
async def test_samples_that_are_too_many_for_later_stages_are_refused_by_their_name(served, path, body, param):
    served.pipeline.reject_error = wire.Error("too many", "invalid_value", param="samples")
    status, reply, _ = await served.post(path, body)
    assert (status, reply["error"]["param"]) == (400, param)
    assert {encode.samples for encode in served.pipeline.encodes} == {3}


async def test_each_choice_of_a_stream_keeps_the_contract(served):
    body = {"messages": HELLO, "n": 2, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    events, done = await served.events("/v1/chat/completions", body)
    *chunks, last = events
    assert (done, last["choices"], last["usage"]["completion_tokens"]) == ("[DONE]", [], 8)
    for index in (0, 1):
        choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert [choice["delta"].get("role") for choice in choices].count("assistant") == 1
        assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello, world!"
        assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    counts = [chunk["usage"]["completion_tokens"] for chunk in events]
    assert counts == sorted(counts)


async def test_prompts_are_choices_in_their_order(served):
    body = {"prompt": ["Once", [104, 105, 33]], "n": 2, "echo": True}
    _, reply, _ = await served.post("/v1/completions", body)
    texts = [choice["text"] for choice in reply["choices"]]
    assert texts == ["OnceHello, world!"] * 2 + ["hi!Hello, world!"] * 2
    assert reply["usage"]["prompt_tokens"] == 4 + 3


async def test_a_repeated_prompt_streams_first(served):
    events, _ = await served.events("/v1/completions", {"prompt": "Once", "echo": True})
    assert "".join(event["choices"][0]["text"] for event in events) == "OnceHello, world!"
    events, _ = await served.events("/v1/completions", {"prompt": "Once", "echo": True, "max_tokens": 0})
    assert [event["choices"][0]["text"] for event in events] == ["Once"]


async def test_a_repeated_prompt_has_its_log_probabilities(served):
    body = {"prompt": [7, 8, 9], "echo": True, "logprobs": 0, "max_tokens": 1}
    _, reply, _ = await served.post("/v1/completions", body)
    logprobs = reply["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["7", "8", "9", "Hello"]
    assert logprobs["token_logprobs"] == [None, -0.5, -1.0, 0.0]
    assert logprobs["top_logprobs"] == [None, {"8": -0.5}, {"9": -1.0}, {"Hello": 0.0}]
    assert logprobs["text_offset"] == [0, 1, 2, 3]


async def test_a_native_list_is_answered_with_a_list(served):
    body = {"text": ["a", "b"], "rid": ["x", "y"], "return_logprob": True, "logprob_start_len": 0}
    _, reply, _ = await served.post("/generate", body)
    assert [(one["text"], one["meta_info"]["id"]) for one in reply] == [("Hello, world!", "x"), ("Hello, world!", "y")]
    assert reply[0]["meta_info"]["input_token_logprobs"] == [[None, ord("a"), None]]
    _, reply, _ = await served.post("/generate", {"text": ["a"]})
    assert [one["text"] for one in reply] == ["Hello, world!"]


async def test_events_of_a_native_list_say_whose_they_are(served):
    events, _ = await served.events("/generate", {"text": "a", "sampling_params": {"n": 2}})
    for index in (0, 1):
        mine = [event for event in events if event["index"] == index]
        assert mine[-1]["meta_info"]["finish_reason"]["type"] == "stop"
        assert mine[-1]["text"] == "Hello, world!"


async def test_the_failure_of_one_prompt_is_that_of_the_request(served):
    status, reply, _ = await served.post("/v1/completions", {"prompt": ["a", [5000]]})
    assert (status, reply["error"]["param"]) == (400, "prompt.1")
    assert served.pipeline.runs == {}


async def test_more_generations_than_there_can_be_room_for_are_an_error(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_open_requests=3) as served:
        status, reply, _ = await served.post("/v1/completions", {"prompt": "x", "n": 4})
        assert (status, reply["error"]["code"]) == (400, "invalid_value")
        assert (await served.post("/v1/completions", {"prompt": "x", "n": 3}))[0] == 200


async def test_an_aborted_request_keeps_what_it_has(served):
    served.pipeline.auto = False
    asking = asyncio.create_task(served.post("/generate", {"text": "Once", "rid": "mine"}))
    other = asyncio.create_task(served.post("/generate", {"text": "Once", "rid": "mine too"}))
    await served.until(lambda: len(served.pipeline.runs) == 2)
    served.pipeline.emit(1)
    assert (await served.post("/abort_request", {"rid": "mine"}))[0] == 200
    status, reply, _ = await asking
    assert (status, reply["meta_info"]["finish_reason"]["type"]) == (200, "abort")
    served.pipeline.auto = True
    served.pipeline.emit()
    assert (await other)[1]["text"] == "Hello, world!"


async def test_the_likeliest_are_answered(served):
    _, reply, _ = await served.post("/v1/completions", {"prompt": "x", "n": 1, "best_of": 3})
    assert [choice["index"] for choice in reply["choices"]] == [0]
    assert reply["choices"][0]["logprobs"] is None
    assert reply["usage"]["completion_tokens"] == 12
