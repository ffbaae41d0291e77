"""What a person sees first: sensible answers on every route, streamed and not, with the usage they ask for."""

import itertools

import httpx
import pytest

from sapwood import __version__
from tests.support.deployment import sse

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def chat(server, **more):
    body = {"model": "SmolLM2-135M-Instruct", "messages": QUESTION, "temperature": 0, "max_tokens": 40} | more
    return server.post("/v1/chat/completions", body)


def stream(server, path, body):
    with httpx.stream("POST", f"{server.url}{path}", json=body | {"stream": True}, timeout=120) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        return list(sse(reply.iter_lines()))


def test_chat_names_paris(server):
    reply = chat(server).json()
    assert "Paris" in reply["choices"][0]["message"]["content"]
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] == reply["usage"]["total_tokens"]


def test_chat_streams_the_same_text(server):
    whole = chat(server).json()["choices"][0]["message"]["content"]
    body = {"model": "SmolLM2-135M-Instruct", "messages": QUESTION, "temperature": 0, "max_tokens": 40}
    events = stream(server, "/v1/chat/completions", body | {"stream_options": {"include_usage": True}})
    deltas = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
    assert "".join(deltas) == whole
    assert len(deltas) > 3
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "The capital of France is", "max_new_tokens": 12, "temperature": 0},
        {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 12, "temperature": 0}},
    ],
)
def test_generate_in_both_shapes(server, body):
    reply = server.post("/generate", body).json()
    assert "Paris" in reply["text"]
    assert len(reply["output_ids"]) == reply["meta_info"]["completion_tokens"] == 12
    assert reply["meta_info"]["finish_reason"]["type"] == "length"
    assert reply["meta_info"]["prompt_tokens"] == 5


def test_generate_streams_cumulatively(server):
    body = {"text": "Paris is", "sampling_params": {"max_new_tokens": 12, "temperature": 0}}
    texts = [event["text"] for event in stream(server, "/generate", body)]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert texts[-1] == server.post("/generate", body).json()["text"]


def test_completions(server):
    reply = server.post(
        "/v1/completions",
        {"model": "SmolLM2-135M-Instruct", "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0},
    ).json()
    assert "Paris" in reply["choices"][0]["text"]


def test_a_repeated_prompt_is_cached_but_for_its_last_token(server):
    prompt = list(range(2000, 4000))
    cold = server.generate(prompt, max_new_tokens=2)["meta_info"]
    warm = server.generate(prompt, max_new_tokens=2)["meta_info"]
    assert (cold["cached_tokens"], warm["cached_tokens"]) == (0, 1999)


def test_turn_two_hits_prompt_and_answer_of_turn_one(server):
    first = server.generate("A story about a cat and a lighthouse:", max_new_tokens=20)
    ids = first["output_ids"]
    prompt = server.generate("A story about a cat and a lighthouse:", max_new_tokens=1)["meta_info"]["prompt_tokens"]
    history = "A story about a cat and a lighthouse:" + first["text"]
    second = server.generate(history + " And then", max_new_tokens=2)["meta_info"]
    assert second["cached_tokens"] >= prompt + len(ids) - 2


def test_the_model_is_listed(server):
    models = httpx.get(f"{server.url}/v1/models").json()
    assert [model["id"] for model in models["data"]] == ["SmolLM2-135M-Instruct"]
    assert models["data"][0]["max_model_len"] == 8192
    assert httpx.get(f"{server.url}/get_model_info").status_code == 200


def test_health_and_readiness(server):
    assert httpx.get(f"{server.url}/health").json() == {"version": __version__, "status": "healthy"}
    assert httpx.get(f"{server.url}/ready").status_code == 200


def test_hit_rate_rises_in_the_metrics(server):
    prompt = list(range(5000, 5400))
    server.generate(prompt, max_new_tokens=1)
    hits = server.metric(r'sapwood_cache_hit_total\{type="radix"\}')
    rate = server.metric("sapwood_cache_hit_rate")
    reported = server.generate(prompt, max_new_tokens=1)["meta_info"]["cached_tokens"]
    assert server.metric(r'sapwood_cache_hit_total\{type="radix"\}') - hits == reported == 399
    assert server.metric("sapwood_cache_hit_rate") > rate


def test_a_request_leaves_one_line_in_the_log(server):
    request_id = server.generate("Hello", max_new_tokens=3)["meta_info"]["id"]
    lines = [line for line in server.lines("request") if line["request_id"] == request_id]
    assert len(lines) == 1
    assert lines[0]["completion_tokens"] == 3
