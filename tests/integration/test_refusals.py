"""Bad input is a 4xx in OpenAI's shape that names the parameter, and the next request works."""

import httpx
import pytest

from tests.support.deployment import deployed

MODEL = "SmolLM2-135M-Instruct"
MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"

BAD = [
    (CHAT, b"{", 400, None),
    (CHAT, b"[]", 400, None),
    (CHAT, b"\xff", 400, None),
    (CHAT, b"[" * 10_000, 400, None),
    (CHAT, {"model": "other", "messages": MESSAGES}, 404, "model"),
    (CHAT, {"model": MODEL, "messages": []}, 400, "messages"),
    (CHAT, {"model": MODEL, "messages": "hi"}, 400, "messages"),
    (CHAT, {"model": MODEL, "messages": [{"role": 1}]}, 400, "messages.0.role"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "temperature": "hot"}, 400, "temperature"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "temperature": -1}, 400, "temperature"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "top_p": 1.5}, 400, "top_p"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "max_tokens": -1}, 400, "max_tokens"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "n": 0}, 400, "n"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "top_logprobs": 10**6, "logprobs": True}, 400, "top_logprobs"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "logit_bias": {"99999999": -100}}, 400, "logit_bias"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "stop_token_ids": [99999999]}, 400, "stop_token_ids"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "stream_options": {"include_usage": True}}, 400, "stream_options"),
    (CHAT, {"model": MODEL, "messages": MESSAGES, "temprature": 1}, 400, "temprature"),
    (COMPLETIONS, {"model": MODEL, "prompt": [99999999]}, 400, "prompt"),
    (COMPLETIONS, {"model": MODEL, "prompt": [-1]}, 400, "prompt"),
    (COMPLETIONS, {"model": MODEL, "prompt": [True]}, 400, "prompt"),
    (COMPLETIONS, {"model": MODEL, "prompt": [2**40]}, 400, "prompt"),
    (COMPLETIONS, {"model": MODEL, "prompt": []}, 400, "prompt"),
    (COMPLETIONS, {"model": MODEL, "prompt": "word " * 9000}, 400, "prompt"),
    (GENERATE, {}, 400, None),
    (GENERATE, {"text": "a", "input_ids": [1]}, 400, None),
    (GENERATE, {"text": "a", "sampling_params": {"max_new_tokens": -5}}, 400, "max_new_tokens"),
    (GENERATE, {"text": "a", "sampling_params": {"stop": ["x"] * 1000}}, 400, "stop"),
]


def send(server, path, body):
    if isinstance(body, bytes):
        return httpx.post(f"{server.url}{path}", content=body, headers={"content-type": "application/json"}, timeout=60)
    return server.post(path, body)


@pytest.mark.parametrize(("path", "body", "status", "param"), BAD)
def test_bad_input_is_named(server, path, body, status, param):
    reply = send(server, path, body)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    if param is not None:
        assert param in error["param"]


def test_the_next_request_works(server):
    assert server.generate("Hello", max_new_tokens=2)["meta_info"]["completion_tokens"] == 2
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_an_over_long_prompt_names_both_numbers(server):
    error = server.post(COMPLETIONS, {"model": MODEL, "prompt": [5] * 9000}).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "9000" in error["message"]
    assert "8192" in error["message"]


def test_unknown_routes_and_methods(server):
    for reply, status in [
        (httpx.get(f"{server.url}/v1/nothing"), 404),
        (httpx.get(f"{server.url}/v1/chat/completions"), 405),
    ]:
        assert reply.status_code == status
        assert reply.json()["error"]["message"]


def test_a_limit_beyond_the_context_is_clamped(tmp_path):
    with deployed(tmp_path, "--context-length", "200") as short:
        reply = short.generate([100] * 180, max_new_tokens=10**6, ignore_eos=True)
        assert reply["meta_info"]["completion_tokens"] == 20
        assert reply["meta_info"]["finish_reason"]["type"] == "length"
