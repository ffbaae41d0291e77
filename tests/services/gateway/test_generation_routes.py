"""The generating routes over HTTP, with the other stages faked behind the real links."""

import asyncio
import json

import pytest

from shared import wire
from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi you"}]
CHAT = {"model": "tiny", "messages": HELLO}


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


async def first_output(served, path, body):
    """The response to a stream of which one token has come."""
    asking = asyncio.create_task(served.client.post(path, json={**body, "stream": True}))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    return await asking


# --- whole -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"text": "Once", "sampling_params": {"max_new_tokens": 30}},
        {"prompt": "Once", "max_new_tokens": 30},
        {"input_ids": [1, 2, 3, 4]},
    ],
)
async def test_generate(served, body):
    status, reply, headers = await served.post("/generate", body)
    assert status == 200
    assert reply["text"] == "Hello, world!"
    assert reply["output_ids"] == [100, 101, 102, 103]
    meta_info = reply["meta_info"]
    assert meta_info.pop("e2e_latency") > 0
    assert meta_info == {
        "id": headers["x-request-id"],
        "finish_reason": {"type": "stop", "matched": 103},
        "prompt_tokens": 4,
        "completion_tokens": 4,
        "cached_tokens": 2,
    }


async def test_chat(served):
    status, reply, headers = await served.post("/v1/chat/completions", CHAT)
    assert status == 200
    assert reply["id"] == f"chatcmpl-{headers['x-request-id']}"
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "Hello, world!", "refusal": None}
    assert reply["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    (encode,) = served.pipeline.encodes
    assert encode.messages == (wire.ChatMessage("user", "Hi you"),)
    assert encode.time_left_s is not None


async def test_a_completion_that_is_cut_says_length(served):
    _, reply, _ = await served.post("/v1/completions", {"prompt": "x", "max_tokens": 2})
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["choices"][0]["text"] == "Hello,"
    assert reply["usage"]["completion_tokens"] == 2


async def test_requests_side_by_side_do_not_mix(served):
    bodies = [{"prompt": "x", "max_tokens": n} for n in range(1, 5)]
    replies = await asyncio.gather(*(served.post("/v1/completions", body) for body in bodies))
    assert [reply["choices"][0]["text"] for _, reply, _ in replies] == [
        "Hello",
        "Hello,",
        "Hello, world",
        "Hello, world!",
    ]


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_a_chat_stream(served):
    served.pipeline.auto = False
    reading = asyncio.create_task(served.events("/v1/chat/completions", CHAT))
    await served.until(lambda: served.pipeline.runs)
    for _ in served.pipeline.pieces:
        served.pipeline.emit(1)
        await asyncio.sleep(0.02)
    events, done = await reading
    assert done == "[DONE]"
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [delta["content"] for delta in deltas[1:-1]] == ["Hello", ",", " world", "!"]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 5 + ["stop"]


async def test_a_native_stream_is_cumulative(served):
    events, done = await served.events("/generate", {"text": "Once", "rid": "mine"})
    assert done == "[DONE]"
    assert events[-1]["text"] == "Hello, world!"
    assert events[-1]["meta_info"]["finish_reason"]["type"] == "stop"
    assert events[-1]["meta_info"]["id"] == "mine"


async def test_usage_comes_last(served):
    body = {"prompt": "x", "stream_options": {"include_usage": True}}
    events, done = await served.events("/v1/completions", body)
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 4
    assert all(event["usage"] is None for event in events[:-1])
    assert done == "[DONE]"


@pytest.mark.parametrize("path", ["/generate", "/v1/completions", "/v1/chat/completions"])
async def test_an_error_in_a_stream_is_its_last_frame(served, path):
    served.pipeline.auto = False
    served.pipeline.finish_error = wire.Error("the matcher broke", "constraint_failed", status=500)
    body = CHAT if "chat" in path else {"prompt": "x"}
    reading = asyncio.create_task(served.events(path, body))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    await asyncio.sleep(0.05)
    served.pipeline.emit()
    events, done = await reading
    assert done is None
    assert events[-1] == {
        "error": {"message": "the matcher broke", "type": "server_error", "param": None, "code": "constraint_failed"}
    }
    assert not any(
        choice.get("finish_reason") for event in events for choice in event.get("choices", []) if "choices" in event
    )


async def test_an_error_before_the_first_output_keeps_its_status(served):
    served.pipeline.encode_error = wire.Error("8200 of 8192", "context_length_exceeded", "prompt")
    status, reply, _ = await served.post("/v1/chat/completions", {**CHAT, "stream": True})
    assert status == 400
    assert reply["error"]["code"] == "context_length_exceeded"
    assert reply["error"]["param"] == "messages"


CITY = {"type": "object", "properties": {"city": {"type": "hiccup"}}}
TOOLS = [
    {"type": "function", "function": {"name": "f"}},
    {"type": "function", "function": {"name": "g", "parameters": CITY}},
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body", "place", "param"),
    [
        ("/generate", {"text": "x", "regex": "[a-z"}, "", "regex"),
        ("/generate", {"text": "x", "sampling_params": {"ebnf": "a"}}, "", "sampling_params.ebnf"),
        ("/v1/completions", {"prompt": "x", "json_schema": CITY}, ".properties.city", "json_schema.properties.city"),
        (
            "/v1/chat/completions",
            {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"name": "b", "schema": CITY}}},
            ".properties.city.type",
            "response_format.json_schema.schema.properties.city.type",
        ),
        (
            "/v1/chat/completions",
            {**CHAT, "tools": TOOLS},
            ".format.tags.1.content.json_schema.properties.city.type",
            "tools.1.function.parameters.properties.city.type",
        ),
        ("/v1/chat/completions", {**CHAT, "tools": TOOLS}, "", "tools"),
    ],
)
async def test_a_constraint_that_cannot_be_is_named_as_the_client_names_it(served, path, body, place, param, stream):
    served.pipeline.reject_error = wire.Error("this cannot be", "invalid_constraint", f"constraint{place}")
    status, reply, _ = await served.post(path, {**body, "stream": stream})
    assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, param, "invalid_constraint")
    assert reply["error"]["message"] == f"{param}: this cannot be"
    served.pipeline.reject_error = None
    assert (await served.post(path, body))[0] == 200  # the server is none the worse for it


async def test_a_failure_within_a_stream_is_named_so_too(served):
    served.pipeline.finish_error = wire.Error("nothing can follow", "constraint_failed", "constraint", 500)
    events, _ = await served.events("/v1/completions", {"prompt": "x", "regex": "a"})
    assert events[-1]["error"]["param"] == "regex"


async def test_an_unknown_format_is_a_bad_request(served):
    status, reply, _ = await served.post("/v1/chat/completions", {**CHAT, "response_format": {"type": "sound"}})
    assert (status, reply["error"]["param"]) == (400, "response_format")


async def test_what_constrains_a_request_travels_with_every_attempt(served):
    served.pipeline.auto = False
    body = {**CHAT, "tools": TOOLS, "tool_choice": "required", "chat_template_kwargs": {"a": 1}}
    asking = asyncio.create_task(served.post("/v1/chat/completions", body))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    served.pipeline.kill_scheduler()
    served.pipeline.start_scheduler("hub-2")
    await served.until(lambda: len(served.pipeline.submits) == 2)
    served.pipeline.emit()
    await asking
    (encode,) = served.pipeline.encodes
    assert [tool["function"]["name"] for tool in encode.tools] == ["f", "g"]
    assert encode.template_options == {"chat_template_kwargs": {"a": 1}}
    assert encode.constraint.kind == "structural_tag"
    assert [submit.constraint for submit in served.pipeline.submits] == [encode.constraint] * 2


# --- clients that leave ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_the_work_at_once(served, stream, capsys):
    served.pipeline.auto = False
    body = {"text": "Once", "stream": stream}
    asking = asyncio.create_task(served.post("/generate", body))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await served.until(lambda: served.pipeline.aborts)
    assert served.pipeline.aborts[0].reason == "client"
    assert not served.pipeline.runs
    status, _, _ = await served.get("/health")
    assert status == 200


async def test_a_client_that_leaves_in_the_middle_of_a_stream(served):
    served.pipeline.auto = False
    response = await first_output(served, "/generate", {"text": "x"})
    await response.content.readline()
    response.close()
    await served.until(lambda: served.pipeline.aborts)


async def test_a_client_that_leaves_before_it_is_encoded(served):
    served.pipeline.held_encodes = []
    asking = asyncio.create_task(served.post("/generate", {"text": "x"}))
    await served.until(lambda: served.pipeline.held_encodes)
    asking.cancel()
    await served.until(lambda: served.pipeline.aborts)


async def test_a_slow_reader_holds_nothing_up_and_loses_nothing(tmp_path, tiny_card):
    pieces = ["x" * 1000] * 900
    async with serving(tmp_path, tiny_card, pieces=pieces) as served:
        served.pipeline.auto = False
        slow = await first_output(served, "/v1/completions", {"prompt": "x", "max_tokens": 1000})
        while served.pipeline.runs:  # to its end, while nobody reads
            served.pipeline.emit(50)
            await asyncio.sleep(0)
        _, quick, _ = await served.get("/v1/models")
        text = (await slow.read()).decode()
    texts = [json.loads(frame[6:])["choices"][0]["text"] for frame in text.split("\n\n")[:-2]]
    assert sum(map(len, texts)) == 900_000
    assert quick["object"] == "list"


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_a_lost_request_goes_on_where_it_was(served):
    served.pipeline.auto = False
    reading = asyncio.create_task(served.events("/v1/completions", {"prompt": "x"}))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(2)
    await asyncio.sleep(0.02)
    (request_id,) = served.pipeline.runs
    served.pipeline.hub.send("gw", wire.Lost(request_id, 1, "executor died"))
    await served.until(lambda: len(served.pipeline.submits) == 2)
    assert served.pipeline.submits[1].resume_token_ids == (100, 101)
    assert served.pipeline.submits[1].sampling == served.pipeline.submits[0].sampling
    served.pipeline.emit()
    events, done = await reading
    assert "".join(event["choices"][0]["text"] for event in events) == "Hello, world!"
    assert done == "[DONE]"


async def test_a_scheduler_that_starts_anew_is_told_everything(served):
    served.pipeline.auto = False
    asking = asyncio.create_task(served.post("/generate", {"text": "Once"}))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    await asyncio.sleep(0.02)
    served.pipeline.kill_scheduler()
    await asyncio.sleep(0.02)
    served.pipeline.start_scheduler("hub-2")
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit()
    status, reply, _ = await asking
    assert (status, reply["text"], reply["meta_info"]["completion_tokens"]) == (200, "Hello, world!", 4)


async def test_a_tokenizer_that_dies_in_the_middle_of_an_encode(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, tokenizers=2) as served:
        served.pipeline.held_encodes = []
        asking = asyncio.create_task(served.post("/generate", {"text": "Once"}))
        await served.until(lambda: served.pipeline.held_encodes)
        served.pipeline.held_encodes = None
        served.pipeline.kill("tokenizer-1")
        await served.until(lambda: served.pipeline.runs or asking.done())
        status, reply, _ = await asking
    assert (status, reply["text"]) == (200, "Hello, world!")
    assert [encode.attempt for encode in served.pipeline.encodes] == [1, 2]


async def test_a_refusal_of_the_scheduler_reaches_the_client(served):
    served.pipeline.reject_error = wire.Error("the queue is full", "overloaded", status=429, retry_after_s=2.5)
    status, reply, headers = await served.post("/v1/completions", {"prompt": "x"})
    assert (status, headers["Retry-After"], reply["error"]["type"]) == (429, "3", "rate_limit_error")


async def test_after_a_refusal_for_want_of_room_the_next_one_is_refused_without_a_tokenizer(served):
    served.pipeline.reject_error = wire.Error("the queue is full", "overloaded", status=429, retry_after_s=30.0)
    answers = [await served.post("/v1/completions", {"prompt": "x"}) for _ in range(3)]
    assert [(status, reply["error"]["code"]) for status, reply, _ in answers] == [(429, "overloaded")] * 3
    assert [headers["Retry-After"] for _, _, headers in answers] == ["30", "60", "60"]
    assert len(served.pipeline.encodes) == 1


async def test_after_a_refusal_of_many_outputs_a_single_one_is_asked_for(served):
    served.pipeline.reject_error = wire.Error("the queue is full", "overloaded", status=429, retry_after_s=3.0)
    status, _, headers = await served.post("/v1/completions", {"prompt": "x", "n": 4})
    assert (status, headers["Retry-After"]) == (429, "12")
    served.pipeline.reject_error = None
    assert (await served.post("/v1/completions", {"prompt": "x"}))[0] == 200


async def test_a_deadline(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, request_timeout_s=0.05) as served:
        served.pipeline.auto = False
        status, reply, _ = await served.post("/v1/completions", {"prompt": "x"})
        assert (status, reply["error"]["code"]) == (504, "deadline_exceeded")
        assert served.pipeline.aborts[0].reason == "deadline"


@pytest.mark.parametrize(
    ("asked_s", "most_s", "left_s"), [(5.0, 3600.0, 5.0), (7200.0, 60.0, 60.0), (1e300, 60.0, 60.0), (None, 60.0, 60.0)]
)
async def test_a_timeout_counts_within_the_servers_own(tmp_path, tiny_card, asked_s, most_s, left_s):
    async with serving(tmp_path, tiny_card, request_timeout_s=most_s) as served:
        assert (await served.post("/generate", {"text": "x", "timeout": asked_s}))[0] == 200
        (encode,) = served.pipeline.encodes
        assert encode.time_left_s == pytest.approx(left_s, abs=1.0)


async def test_a_stream_whose_time_is_up_says_so_in_its_last_event(served):
    served.pipeline.auto = False
    response = await first_output(served, "/v1/completions", {"prompt": "x", "timeout": 0.1})
    events = (await response.text()).split("\n\n")
    assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
    assert served.pipeline.aborts[0].reason == "deadline"


async def test_too_many_open_requests(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_open_requests=1) as served:
        served.pipeline.auto = False
        first = asyncio.create_task(served.post("/generate", {"text": "x"}))
        await served.until(lambda: served.pipeline.runs)
        status, reply, headers = await served.post("/generate", {"text": "x"})
        assert (status, reply["error"]["code"], headers["Retry-After"]) == (429, "overloaded", "1")
        served.pipeline.emit()
        assert (await first)[0] == 200
        served.pipeline.auto = True
        assert (await served.post("/generate", {"text": "x"}))[0] == 200


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/chat/completions", b"{", 400, None),
        ("/v1/chat/completions", b"[" * 100_000, 400, None),
        ("/v1/chat/completions", b"[]", 400, None),
        ("/v1/chat/completions", b'{"messages": []}', 400, "messages"),
        ("/v1/completions", b'{"prompt": [99999]}', 400, "prompt"),
        ("/v1/completions", b'{"prompt": "x", "model": "other"}', 404, "model"),
        ("/generate", b'{"text": "x", "sampling_params": {"top_p": 7}}', 400, "sampling_params.top_p"),
    ],
)
async def test_bad_input_is_refused_in_openais_shape_and_the_next_request_works(served, path, body, status, param):
    found, reply, headers = await served.post(path, data=body)
    assert found == status
    assert set(reply["error"]) == {"message", "type", "param", "code"}
    assert reply["error"]["param"] == param
    assert reply["error"]["type"] == "invalid_request_error"
    assert headers["x-request-id"]
    assert (await served.post("/generate", {"text": "x"}))[0] == 200


async def test_a_body_over_the_limit(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_body_bytes=1000) as served:
        status, reply, headers = await served.post("/generate", {"text": "x" * 2000})
        assert (status, reply["error"]["code"]) == (413, "request_too_large")
        assert headers["x-request-id"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/generate", 405)])
async def test_wrong_paths_and_methods(served, method, path, status):
    async with served.client.request(method, path) as response:
        reply = await response.json()
        assert response.status == status
        assert set(reply["error"]) == {"message", "type", "param", "code"}
        assert response.headers["x-request-id"]
        assert response.headers.get("Allow") == ("POST" if status == 405 else None)
