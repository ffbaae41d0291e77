"""The one canonical log line of a request, over HTTP."""

import asyncio

import pytest
import structlog

from services.gateway.generation import Ending, Usage
from services.gateway.journal import CLIENT_CLOSED
from services.gateway.metrics import Metrics
from services.gateway.record import RequestRecord
from services.gateway.stream import Stream
from shared import wire
from tests.support.served_gateway import serving


@pytest.fixture
async def lines(tmp_path, tiny_card):
    """A served gateway and its `request` lines."""
    captured = structlog.testing.LogCapture()
    structlog.configure(processors=[captured])
    async with serving(tmp_path, tiny_card) as served:
        yield served, lambda: [entry for entry in captured.entries if entry["event"] == "request"]
    structlog.reset_defaults()


async def test_a_request_has_one_line(lines):
    served, requests = lines
    _, reply, headers = await served.post("/generate", {"text": "Once", "stream": False})
    (line,) = requests()
    assert line.pop("total_s") >= line.pop("ttft_s") > 0
    assert line == {
        "event": "request",
        "log_level": "info",
        "request_id": headers["x-request-id"],
        "tenant": "",
        "route": "/generate",
        "status": 200,
        "outcome": "ok",
        "stream": False,
        "finish_reason": "stop",
        "constraint": None,
        "error": None,
        "prompt_tokens": 4,
        "cached_tokens": reply["meta_info"]["cached_tokens"],
        "completion_tokens": 4,
        "attempts": 1,
        "tokenizer": "tokenizer-1",
        "executor": "executor-1",
    }


async def test_the_kind_of_a_constraint_is_in_it_and_the_constraint_is_not(lines):
    served, requests = lines
    await served.post("/v1/completions", {"prompt": "x", "regex": "secret"})
    (line,) = requests()
    assert (line["constraint"], line["finish_reason"]) == ("regex", "stop")
    assert "secret" not in str(line)


async def test_a_refused_request_has_one_too(lines):
    served, requests = lines
    await served.post("/v1/completions", {"prompt": "x", "top_p": 5})
    await served.get("/nowhere")
    assert [(line["route"], line["status"], line["outcome"]) for line in requests()] == [
        ("/v1/completions", 400, "refused"),
        ("unknown", 404, "refused"),
    ]


async def test_probes_have_none(lines):
    served, requests = lines
    for path in ("/health", "/ready"):
        await served.get(path)
    async with served.client.get("/metrics"):
        pass
    assert requests() == []


async def test_a_client_that_left(lines):
    served, requests = lines
    served.pipeline.auto = False
    asking = asyncio.create_task(served.post("/generate", {"text": "x"}))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(2)
    asking.cancel()
    await served.until(requests)
    (line,) = requests()
    assert (line["outcome"], line["status"], line["completion_tokens"]) == ("client_closed", 499, 2)


async def test_a_stream_that_broke_is_a_failure_although_it_began_well(lines):
    served, requests = lines
    served.pipeline.auto = False
    reading = asyncio.create_task(served.events("/generate", {"text": "x"}))
    await served.until(lambda: served.pipeline.runs)
    served.pipeline.emit(1)
    await asyncio.sleep(0.02)
    served.pipeline.finish_error = wire.Error("it broke", "broken", status=500)
    served.pipeline.emit()
    await reading
    (line,) = requests()
    assert (line["status"], line["outcome"], line["error"], line["stream"]) == (200, "failed", "broken", True)


def test_a_mistake_of_ours_is_not_put_down_to_the_client():
    """The handler's exception closes the stream, which abandons the request."""
    record = RequestRecord("r", "/generate", Metrics())
    record.stream = Stream(1, lambda index: None)
    record.stream.finish(0, Ending(Usage(), 1, None, error=CLIENT_CLOSED))
    assert record.close(500)["outcome"] == "failed"
