"""Spans, as the library hands them to its exporter."""

import logging
import threading

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from structlog.testing import capture_logs

from services.gateway import otlp
from services.gateway.otlp import OtlpTracing
from services.gateway.trace import Untraced
from services.gateway.traceparent import Parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LINE = {"request_id": "r1", "route": "/generate", "status": 200, "outcome": "ok", "error": None, "stream": False}
LINE |= {"total_s": 3.0}
TIMES = {"read_s": 0.5, "tokenizer_wait_s": 0.0, "encode_s": 0.25, "compile_s": 0.0, "queue_s": 0.0, "ttft_s": 2.0}
TIMES |= {"completion_tokens": 4, "finish_reason": "length"}


@pytest.fixture
async def opened():
    """Opens one with a share of its own; `spans` ends it, and has what was sent."""
    exporter = InMemorySpanExporter()
    tracings = []

    def tracing(sample=1.0):
        tracings.append(OtlpTracing(exporter, "gateway-1", "tiny", sample))
        return tracings[-1]

    async def spans():
        await tracings[0].close()
        return exporter.get_finished_spans()

    yield tracing, spans
    for each in tracings:
        await each.close()


async def test_a_request_is_a_span_with_its_phases_below(opened):
    tracing, spans = opened
    trace = tracing().begin("POST", "/generate", None)
    trace.end(LINE | TIMES)
    *below, root = await spans()
    assert format_trace_id(root.context.trace_id) == trace.trace_id
    assert (root.name, root.kind, root.parent, root.status.status_code) == (
        "POST /generate",
        SpanKind.SERVER,
        None,
        StatusCode.UNSET,
    )
    assert root.attributes["gen_ai.usage.output_tokens"] == 4
    assert root.attributes["http.route"] == "/generate"
    assert root.resource.attributes["service.instance.id"] == "gateway-1"
    assert {span.parent.span_id for span in below} == {root.context.span_id}
    since_s = [
        (span.name, *((at - root.start_time) / 1e9 for at in (span.start_time, span.end_time))) for span in below
    ]
    assert since_s == [("read", 0, 0.5), ("encode", 0.5, 0.75), ("prefill", 0.75, 2.0), ("decode", 2.0, 3.0)]
    assert root.end_time - root.start_time == 3e9


async def test_it_is_a_child_of_what_its_client_names(opened):
    tracing, spans = opened
    trace = tracing(sample=0.0).begin("POST", "/generate", Parent(TRACE, SPAN, True))
    trace.end(LINE)
    (root,) = await spans()
    assert trace.trace_id == format_trace_id(root.context.trace_id) == TRACE
    assert (format_span_id(root.parent.span_id), root.parent.is_remote) == (SPAN, True)


async def test_what_its_client_does_not_keep_is_not_sent(opened):
    tracing, spans = opened
    trace = tracing().begin("POST", "/generate", Parent(TRACE, SPAN, False))
    trace.end(LINE | TIMES)
    assert trace == Untraced(TRACE)
    assert await spans() == ()


async def test_without_a_parent_the_share_decides(opened):
    tracing, spans = opened
    trace = tracing(sample=0.0).begin("POST", "/generate", None)
    trace.end(LINE | TIMES)
    assert trace == Untraced("")
    assert await spans() == ()


async def test_only_faults_of_the_servers_are_errors(opened):
    tracing, spans = opened
    begin = tracing().begin
    for outcome in ("refused", "client_closed", "failed"):
        begin("POST", "/generate", None).end(LINE | {"outcome": outcome, "status": 500})
    assert [span.status.status_code for span in await spans()] == [StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR]


async def test_work_that_goes_on_is_below_the_request_that_asked_for_it(opened):
    tracing, spans = opened
    asking = tracing().begin("POST", "/v1/responses", None)
    later = asking.later("background")
    asking.end(LINE)
    later.end(LINE | {"route": "background"})
    root, below = await spans()
    assert (below.name, below.parent.span_id, below.kind) == ("background", root.context.span_id, SpanKind.INTERNAL)
    assert later.trace_id == asking.trace_id


class Away(SpanExporter):
    """A collector that takes nothing, until it is let go."""

    def __init__(self):
        self.asked, self.let_go = threading.Event(), threading.Event()

    def export(self, spans):
        self.asked.set()
        self.let_go.wait(10)
        return SpanExportResult.FAILURE

    def shutdown(self):
        pass


@pytest.fixture
def away():
    exporter = Away()
    yield exporter
    exporter.let_go.set()


async def test_a_collector_that_hangs_holds_up_no_request_and_no_end(away, monkeypatch):
    monkeypatch.setattr(otlp, "FLUSH_S", 0.01)
    with capture_logs() as lines:
        tracing = OtlpTracing(away, "gateway", "tiny", 1.0)
        for _ in range(otlp.BATCH_SPANS):
            tracing.begin("POST", "/generate", None).end(LINE)
        assert away.asked.wait(5)
        for _ in range(otlp.MOST_SPANS + 100):  # more than are kept
            tracing.begin("POST", "/generate", None).end(LINE)
        await tracing.close()
    assert [(line["event"], line["reason"]) for line in lines] == [("traces_away", "Queue full, dropping Span.")]


async def test_what_the_library_says_is_told_once_a_minute():
    now_s = iter((0.0, 59.0, 60.0))
    complaints = otlp._Complaints(lambda: next(now_s))
    with capture_logs() as lines:
        for number in range(3):
            logging.getLogger("opentelemetry.exporter").warning("try %d %s", number, "x" * 500)
        logging.getLogger("opentelemetry.exporter").info("nothing")
    complaints.close()
    assert [line["reason"][:5] for line in lines] == ["try 0", "try 2"]
    assert {len(line["reason"]) for line in lines} == {200}
    assert logging.getLogger("opentelemetry").handlers == []
