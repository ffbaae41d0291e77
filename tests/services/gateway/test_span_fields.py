from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.span_fields import Phase, attributes, phases, root_attributes, root_name

LINE = {
    "request_id": "r1",
    "trace_id": "t1",
    "tenant": "a1b2",
    "route": "/v1/chat/completions",
    "status": 200,
    "outcome": "ok",
    "error": None,
    "stream": True,
    "total_s": 10.0,
    "finish_reason": "stop",
    "n": 2,
    "prompt_tokens": 30,
    "cached_tokens": 20,
    "completion_tokens": 7,
    "read_s": 0.5,
    "tokenizer_wait_s": 0.125,
    "encode_s": 0.25,
    "compile_s": 0.0,
    "queue_s": 2.0,
    "ttft_s": 4.0,
    "executor": "executor-1",
}
REFUSED = {"request_id": "r1", "route": "/generate", "status": 400, "outcome": "refused", "error": "x", "stream": False}

seconds = st.floats(0, 100)


def test_phases_follow_one_another_and_what_took_no_time_is_none():
    assert list(phases(LINE)) == [
        Phase("read", 0.0, 0.5),
        Phase("tokenizer_wait", 0.5, 0.625),
        Phase("encode", 0.625, 0.875),
        Phase("queue", 0.875, 2.875),
        Phase("prefill", 2.875, 4.0),
        Phase("decode", 4.0, 10.0),
    ]


def test_without_output_there_is_no_computing():
    assert [phase.name for phase in phases(LINE | {"ttft_s": None})] == ["read", "tokenizer_wait", "encode", "queue"]


def test_what_generates_nothing_has_no_phases():
    assert list(phases(REFUSED)) == []


@given(st.lists(seconds, min_size=4, max_size=4), seconds, st.none() | seconds, seconds)
def test_they_cover_the_request_without_gaps_up_to_its_end(waits, read_s, prefill_s, decode_s):
    first_s = None if prefill_s is None else read_s + prefill_s
    total_s = (first_s or read_s) + decode_s
    named = dict(zip(("tokenizer_wait_s", "encode_s", "compile_s", "queue_s"), waits, strict=True))
    found = list(phases({"read_s": read_s, "ttft_s": first_s, "total_s": total_s} | named))
    assert found[0].begin_s == 0
    assert all(before.end_s == after.begin_s for before, after in pairwise(found))
    assert all(phase.begin_s <= phase.end_s <= total_s for phase in found)
    assert first_s is None or found[-1].end_s == total_s


def test_fields_have_the_names_of_the_conventions_where_there_are_any():
    assert attributes(LINE, "tiny") == {
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sapwood",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": True,
        "gen_ai.request.choice.count": 2,
        "gen_ai.response.model": "tiny",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 4.0,
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "sapwood.request_id": "r1",
        "sapwood.tenant": "a1b2",
        "sapwood.outcome": "ok",
        "sapwood.read_s": 0.5,
        "sapwood.tokenizer_wait_s": 0.125,
        "sapwood.encode_s": 0.25,
        "sapwood.compile_s": 0.0,
        "sapwood.queue_s": 2.0,
        "sapwood.executor": "executor-1",
    }


def test_what_generates_nothing_speaks_of_no_model():
    assert attributes(REFUSED, "tiny") == {
        "http.response.status_code": 400,
        "sapwood.request_id": "r1",
        "sapwood.outcome": "refused",
        "sapwood.error": "x",
    }


@pytest.mark.parametrize(("error", "kind"), [("broken", "broken"), (None, "500")])
def test_only_a_fault_of_the_servers_is_an_error(error, kind):
    failed = REFUSED | {"status": 500, "outcome": "failed", "error": error}
    assert attributes(failed, "tiny")["error.type"] == kind


@pytest.mark.parametrize(
    ("method", "route", "name", "found"),
    [
        ("POST", "/generate", "POST /generate", {"http.request.method": "POST", "http.route": "/generate"}),
        ("GET", "unknown", "GET", {"http.request.method": "GET"}),
        ("PAINT", "unknown", "HTTP", {"http.request.method": "_OTHER"}),
    ],
)
def test_a_span_is_named_for_its_route(method, route, name, found):
    assert (root_name(method, route), root_attributes(method, route)) == (name, found)
