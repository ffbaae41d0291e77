"""The one canonical log line of a request, over HTTP."""

import asyncio

import pytest
import structlog

from services.gateway.generation import Delta, Ending, Usage, Work
from services.gateway.journal import CLIENT_CLOSED
from services.gateway.metrics import Metrics
from services.gateway.record import RequestRecord
from services.gateway.stream import Stream
from shared import wire
from tests.support.served_gateway import serving

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


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
    assert line.pop("total_s") >= line.pop("ttft_s") >= line.pop("read_s") > 0
    line.pop("tpot_s")
    assert 0 < line.pop("tokenizer_wait_s") < 10
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
        "prompts": 1,
        "n": 1,
        "prompt_tokens": 4,
        "cached_tokens": reply["meta_info"]["cached_tokens"],
        "completion_tokens": 4,
        "forced_tokens": 0,
        "forward_steps": 0,
        "preemptions": 0,
        "encode_s": 0.0,
        "queue_s": 0.0,
        "compile_s": 0.0,
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
    assert [(line["route"], line["status"], line["outcome"], line["error"]) for line in requests()] == [
        ("/v1/completions", 400, "refused", "invalid_value"),
        ("unknown", 404, "refused", "not_found"),
    ]


async def test_the_trace_of_a_client_is_on_its_lines(tmp_path, tiny_card):
    with structlog.testing.capture_logs() as lines:
        async with serving(tmp_path, tiny_card) as served:
            await served.post("/generate", {"text": "Once"}, headers={"traceparent": f"00-{TRACE_ID}-{'1' * 16}-01"})
            assert [encode.trace_id for encode in served.pipeline.encodes] == [TRACE_ID]
            await served.post("/generate", {"text": "Once"}, headers={"traceparent": "nonsense"})
    told = [(line["event"], line.get("trace_id")) for line in lines if line["event"] in ("received", "request")]
    assert told == [("received", TRACE_ID), ("request", TRACE_ID), ("received", None), ("request", None)]


def test_what_several_generations_cost_is_added_up_and_their_waits_are_not():
    record = RequestRecord("r", "/generate", Metrics(), samples=2)
    record.stream = Stream(2, lambda index: None)
    for index, work in enumerate((Work(3, 1, 0, 0.5, 0.25, 0.125, 0.5), Work(4, 2, 1, 0.75, 0.0, 0.25))):
        record.stream.finish(index, Ending(Usage(), 1 + index, None, "stop", work=work))
    line = record.close(200)
    names = (
        "forward_steps",
        "forced_tokens",
        "preemptions",
        "queue_s",
        "compile_s",
        "encode_s",
        "tokenizer_wait_s",
        "attempts",
    )
    assert [line[name] for name in names] == [7, 3, 1, 0.75, 0.25, 0.25, 0.5, 2]


def test_the_time_of_a_token_is_that_of_those_behind_the_first_output(monkeypatch):
    now_s = iter([11.0, 12.0, 15.0, 20.0, 20.0])
    monkeypatch.setattr("services.gateway.record.time.monotonic", lambda: next(now_s))
    record = RequestRecord("r", "/generate", Metrics(), started_s=10.0)
    record.stream = Stream(1, lambda index: None)
    for token_ids in ((1, 2, 3), (4,), (5, 6, 7)):
        record.output(0, Delta("", token_ids, Usage()))
    record.stream.finish(0, Ending(Usage(1, 0, 7), 1, None, "stop"))
    line = record.close(200)
    assert (line["ttft_s"], line["tpot_s"]) == (1.0, 1.0)


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
