"""Traces sent to a collector, by OpenTelemetry's own library. Imported only where an endpoint is configured.

One span for each request, with a span for each of its phases below it (see `services.gateway.span_fields`). They are
made when the request has ended, of what its account says. Whether one is made at all, its client's `traceparent` says,
and where there is none, the share of requests that is configured.

A thread of the library's sends them. When the collector is away, spans are lost beyond a bound, and the log says so at
most once a minute; requests notice nothing.
"""

from __future__ import annotations

import asyncio
import logging as stdlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    format_trace_id,
    set_span_in_context,
)

from sapwood import __version__
from services.gateway.span_fields import attributes, phases, root_attributes, root_name
from services.gateway.trace import Trace, Untraced
from services.gateway.traceparent import Parent
from shared import logging
from shared.log_text import LONGEST_MESSAGE

MOST_SPANS = 4096  # that wait to be sent: beyond it the oldest are lost
BATCH_SPANS = 256  # sent at a time
BATCH_EVERY_S = 2.0  # if there are fewer
SEND_TIMEOUT_S = 5.0  # of a batch, tries included
FLUSH_S = 3.0  # what has ended may take so long to be sent when the gateway stops
QUIET_S = 60.0

LIBRARY = "opentelemetry"
NS = 1_000_000_000


def exporter(url: str) -> SpanExporter:
    """What else it needs (headers, certificates) it finds in the environment, as the library does everywhere."""
    return OTLPSpanExporter(endpoint=url, timeout=SEND_TIMEOUT_S)


class OtlpTracing:
    """Args:
    service: this gateway, by name.
    sample: the share of requests without a parent that are traced.
    """

    def __init__(self, exporter: SpanExporter, service: str, model: str, sample: float) -> None:
        ours = {"service.name": "sapwood", "service.version": __version__, "service.instance.id": service}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample)),
            resource=Resource(ours).merge(OTELResourceDetector().detect()),  # the environment may say otherwise
            shutdown_on_exit=False,
        )
        self._complaints = _Complaints()
        self._provider.add_span_processor(BatchSpanProcessor(exporter, MOST_SPANS, 1000 * BATCH_EVERY_S, BATCH_SPANS))
        self._tracer = self._provider.get_tracer("sapwood", __version__)
        self._model = model

    def begin(self, method: str, route: str, parent: Parent | None) -> Trace:
        span = self._tracer.start_span(
            root_name(method, route),
            _context(parent),
            SpanKind.SERVER,
            attributes=root_attributes(method, route),
        )
        if not isinstance(span, Span):
            return Untraced(parent.trace_id if parent is not None else "")
        return _Traced(self._tracer, span, self._model)

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):  # then the process ends under the thread
            async with asyncio.timeout(FLUSH_S):
                await loop.run_in_executor(ThreadPoolExecutor(1), self._provider.shutdown)
        self._complaints.close()


class _Traced:
    def __init__(self, tracer: Tracer, span: Span, model: str) -> None:
        self.trace_id = format_trace_id(span.get_span_context().trace_id)
        self._tracer = tracer
        self._span = span
        self._context = set_span_in_context(span, Context())
        self._model = model

    def later(self, name: str) -> Trace:
        span = self._tracer.start_span(name, self._context)
        assert isinstance(span, Span)  # its parent is
        return _Traced(self._tracer, span, self._model)

    def end(self, line: Mapping[str, Any]) -> None:
        for phase in phases(line):
            span = self._tracer.start_span(phase.name, self._context, start_time=self._at_ns(phase.begin_s))
            span.end(self._at_ns(phase.end_s))
        self._span.set_attributes(attributes(line, self._model))
        if line["outcome"] == "failed":
            self._span.set_status(StatusCode.ERROR)
        self._span.end(self._at_ns(line["total_s"]))

    def _at_ns(self, seconds: float) -> int:
        """By the clock that goes forwards, from when the span began by the time of day."""
        assert self._span.start_time is not None
        return self._span.start_time + round(seconds * NS)


class _Complaints(stdlib.Handler):
    """What the library has to say, instead of a line for each try of each batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stdlib.WARNING)
        self._clock = clock
        self._told_s = float("-inf")
        self._logger = stdlib.getLogger(LIBRARY)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: stdlib.LogRecord) -> None:
        now_s = self._clock()
        if now_s - self._told_s >= QUIET_S:
            self._told_s = now_s
            logging.get().warning("traces_away", reason=record.getMessage()[:LONGEST_MESSAGE])

    def close(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
        super().close()


def _context(parent: Parent | None) -> Context:
    if parent is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    span = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(span), Context())
