"""From the configuration to a collector over HTTP."""

import http.server
import subprocess
import sys
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from services.gateway.trace import NoTracing
from services.gateway.tracing import endpoint_url, open_tracing
from shared.config import ConfigError, TracingConfig
from tests.support.served_gateway import serving

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector(monkeypatch):
    """Its address, and the bodies that it was sent, by path."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # so the library calls it
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


async def test_requests_reach_a_collector_before_the_gateway_has_stopped(tmp_path, tiny_card, collector):
    url, received = collector
    async with serving(tmp_path, tiny_card, tracing=TracingConfig(endpoint=url)) as served:
        headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        await served.post("/generate", {"text": "Secret", "stream": False}, headers=headers)
        await served.post("/generate", {"text": "Secret", "stream": False})
        traced = [encode.trace_id for encode in served.pipeline.encodes]
    ((path, body),) = received
    assert path == "/v1/traces"
    (scopes,) = ExportTraceServiceRequest.FromString(body).resource_spans
    spans = scopes.scope_spans[0].spans
    roots = [span for span in spans if span.name == "POST /generate"]
    assert [span.trace_id.hex() for span in roots] == traced
    assert (roots[0].trace_id.hex(), roots[0].parent_span_id.hex()) == (TRACE, SPAN)
    assert roots[1].parent_span_id == b""
    assert {span.name for span in spans if span.parent_span_id == roots[1].span_id} >= {"read", "prefill", "decode"}
    assert b"Secret" not in body
    assert b" world" not in body


async def test_a_collector_that_is_not_there_is_nothing_to_a_request(tmp_path, tiny_card, monkeypatch):
    monkeypatch.setattr("services.gateway.otlp.FLUSH_S", 0.01)
    monkeypatch.setattr("services.gateway.otlp.SEND_TIMEOUT_S", 0.01)
    tracing = TracingConfig(endpoint="http://127.0.0.1:9")
    async with serving(tmp_path, tiny_card, tracing=tracing) as served:
        status, _, _ = await served.post("/generate", {"text": "Once", "stream": False})
    assert status == 200


def test_without_an_endpoint_there_is_none():
    assert isinstance(open_tracing(TracingConfig(), "gateway", "tiny"), NoTracing)


def test_the_library_is_not_imported_where_it_is_not_needed():
    look = "import sys, services.gateway.server; print([name for name in sys.modules if 'opentelemetry' in name])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "services.gateway.otlp"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr("services.gateway.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"--otlp-traces-endpoint\) needs opentelemetry.*'\.\[server,otel\]'"):
        open_tracing(TracingConfig(endpoint="http://collector:4318"), "gateway", "tiny")


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector/of/ours", "https://collector/of/ours"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_an_endpoint_may_be_a_host_alone(endpoint, url):
    assert endpoint_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "collector:4317",
        "grpc://collector:4317",
        "http://",
        "http://h:0",
        "http://h:x",
        "http://[",
        "http://u:p@h",
        "http://h?key=x",
        "http://h#x",
    ],
)
def test_anything_else_is_refused(endpoint):
    with pytest.raises(ConfigError, match=r"tracing\.endpoint \(--otlp-traces-endpoint\): expected http://HOST:PORT"):
        endpoint_url(endpoint)
