"""/v1/messages over HTTP, with the other stages faked behind the real links."""

import asyncio

import pytest

from shared import wire
from shared.tool_format import HERMES
from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi you"}]
BODY = {"model": "tiny", "max_tokens": 50, "messages": HELLO}
TOOLS = [{"name": "f", "input_schema": {"type": "object", "properties": {"city": {"type": "hiccup"}}}}]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


async def test_a_message(served):
    versions = {"anthropic-version": "2023-06-01", "anthropic-beta": "structured-outputs-2025-11-13"}
    status, reply, headers = await served.post("/v1/messages?beta=true", BODY, headers=versions)
    assert status == 200
    assert reply["id"] == f"msg_{headers['x-request-id']}"
    assert reply["content"] == [{"type": "text", "text": "Hello, world!"}]
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("end_turn", None)
    assert reply["usage"] == {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 4,
    }
    (encode,) = served.pipeline.encodes
    assert encode.messages == (wire.ChatMessage("user", "Hi you"),)


async def test_a_stream(served):
    async with served.client.post("/v1/messages", json={**BODY, "max_tokens": 2, "stream": True}) as response:
        frames = (await response.text()).split("\n\n")
    assert [frame.split("\n")[0] for frame in frames] == [
        "event: message_start",
        "event: content_block_start",
        "event: content_block_delta",
        "event: content_block_stop",
        "event: message_delta",
        "event: message_stop",
        "",
    ]
    assert '"stop_reason":"max_tokens"' in frames[4]


async def test_calls_are_found_where_there_are_tools(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, pieces=(HERMES.call("f", '{"a": 1}'),)) as served:
        _, reply, _ = await served.post("/v1/messages", {**BODY, "tools": TOOLS})
        assert [(block["type"], block["input"]) for block in reply["content"]] == [("tool_use", {"a": 1})]
        assert reply["stop_reason"] == "tool_use"
        _, reply, _ = await served.post("/v1/messages", BODY)
        assert [block["type"] for block in reply["content"]] == ["text"]


async def test_an_error_in_a_stream_is_its_last_event(served):
    served.pipeline.auto = False
    served.pipeline.finish_error = wire.Error("the matcher broke", "constraint_failed", status=500)
    reading = asyncio.create_task(served.events("/v1/messages", BODY))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit()
    events, done = await reading
    assert done is None
    assert events[-1]["type"] == "error"
    assert events[-1]["error"] == {"type": "api_error", "message": "the matcher broke"}
    assert "message_stop" not in [event["type"] for event in events]


async def test_what_is_refused_by_later_stages_is_named_as_the_client_names_it(served):
    place = "constraint.format.tags.0.content.json_schema.properties.city.type"
    served.pipeline.reject_error = wire.Error("no such type", "invalid_constraint", place)
    status, reply, _ = await served.post("/v1/messages", {**BODY, "tools": TOOLS})
    assert (status, reply["type"], reply["error"]["type"]) == (400, "error", "invalid_request_error")
    assert reply["error"]["message"] == "tools.0.input_schema.properties.city.type: no such type"


async def test_a_model_that_is_not_there(served):
    status, reply, _ = await served.post("/v1/messages", {**BODY, "model": "other"})
    assert (status, reply["error"]["type"]) == (404, "not_found_error")


async def test_tokens_are_counted(served):
    body = {"model": "tiny", "messages": HELLO, "system": "Be brief."}
    status, reply, _ = await served.post("/v1/messages/count_tokens", body)
    assert (status, reply) == (200, {"input_tokens": len("Be brief.Hi you")})
    status, reply, _ = await served.post("/v1/messages/count_tokens", {"model": "tiny"})
    assert (status, reply["error"]["message"]) == (400, "messages: this field is required")
