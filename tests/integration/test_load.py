"""Many clients at once, clients that leave, too little memory, and nothing to do."""

import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.deployment import deployed, sse, wait_until


def prompts(count, longest, seed=1):
    """Token-id prompts of log-uniform lengths from 5 to `longest`, each of its own kind."""
    source = random.Random(seed)
    lengths = [round(5 * (longest / 5) ** source.random()) for _ in range(count)]
    return [[source.randrange(1000, 40000) for _ in range(length)] for length in lengths]


def stream(deployment, prompt, tokens):
    body = {"input_ids": prompt, "stream": True, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}
    with httpx.stream("POST", f"{deployment.url}/generate", json=body, timeout=1200) as reply:
        events = list(sse(reply.iter_lines()))
    assert [event["meta_info"]["finish_reason"] is not None for event in events].count(True) == 1
    assert events[-1]["meta_info"]["finish_reason"] is not None
    return events[-1]


def run_concurrently(deployment, count, longest, tokens):
    """Streams all at once, then each prompt alone and unstreamed: the same ids and text."""
    work = prompts(count, longest)
    with ThreadPoolExecutor(count) as pool:
        streamed = list(pool.map(lambda prompt: stream(deployment, prompt, tokens), work))
    different = []
    for prompt, final in zip(work, streamed, strict=True):
        whole = deployment.generate(prompt, max_new_tokens=tokens)
        assert final["meta_info"]["prompt_tokens"] == len(prompt)
        if whole["output_ids"] == final["output_ids"]:
            assert whole["text"] == final["text"]
        else:
            different.append(len(prompt))
    print(f"{count} streams: {len(different)} differ from the lone run, prompts of {different} tokens")
    return different


def pool_is_idle(deployment):
    return deployment.metric("sapwood_kv_pinned_tokens") == 0 and deployment.metric("sapwood_running_requests") == 0


def test_concurrent_streams_of_mixed_lengths(server):
    different = run_concurrently(server, count=24, longest=600, tokens=12)
    assert len(different) <= 1, f"prompts of {different} tokens differ; random ids give near ties, but not many"
    wait_until(lambda: pool_is_idle(server), 5, "all KV given back")


@pytest.mark.soak
def test_a_hundred_concurrent_streams(server):
    different = run_concurrently(server, count=100, longest=3000, tokens=32)
    assert len(different) <= 3
    wait_until(lambda: pool_is_idle(server), 5, "all KV given back")


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_that_leaves_frees_its_kv(server, streaming):
    wait_until(lambda: pool_is_idle(server), 10, "idle before")
    sampling = {"max_new_tokens": 5000, "ignore_eos": True}
    body = json.dumps({"text": "Count to a million: one, two,", "stream": streaming, "sampling_params": sampling})
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = f"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall((head + body).encode())
        wait_until(lambda: server.metric("sapwood_running_requests") == 1, 10, "running")
    left_s = time.monotonic()
    wait_until(lambda: pool_is_idle(server), 5, "KV given back")
    assert time.monotonic() - left_s < 1.5
    wait_until(lambda: server.lines("request")[-1]["outcome"] == "client_closed", 2, "the log says so")


@pytest.mark.parametrize(
    ("requests", "prompt_tokens", "new_tokens", "room"),
    [(10, 150, 50, 800), pytest.param(50, 400, 100, 4000, marks=pytest.mark.soak)],
)
def test_little_room_and_much_work(tmp_path, requests, prompt_tokens, new_tokens, room):
    with deployed(tmp_path, "--max-total-tokens", str(room)) as small:
        work = [random.Random(n).choices(range(1000, 40000), k=prompt_tokens) for n in range(requests)]
        with ThreadPoolExecutor(requests) as pool:
            replies = list(
                pool.map(lambda prompt: small.generate(prompt, max_new_tokens=new_tokens, ignore_eos=True), work)
            )
        assert [reply["meta_info"]["completion_tokens"] for reply in replies] == [new_tokens] * requests
        wait_until(lambda: pool_is_idle(small), 5, "all KV given back")
        free, evictable = small.metric("sapwood_kv_free_tokens"), small.metric("sapwood_kv_evictable_tokens")
        assert free + evictable == room
        assert httpx.get(f"{small.url}/server_info").json()["executors"]["executor-1"]["integrity"] == "ok"
        flushed = httpx.post(f"{small.url}/flush_cache").json()
        assert flushed["freed_tokens"] == evictable
        assert small.metric("sapwood_kv_free_tokens") == room


def test_the_server_is_ready_soon(server):
    assert server.ready_after_s < 15


def test_idle_processes_sleep(server):
    wait_until(lambda: pool_is_idle(server), 10, "idle before")
    time.sleep(1)
    before = sum(sum(process.cpu_times()[:2]) for process in server.processes())
    started_s = time.monotonic()
    time.sleep(8)
    after = sum(sum(process.cpu_times()[:2]) for process in server.processes())
    share = (after - before) / (time.monotonic() - started_s)
    assert share < 0.03, f"{share:.1%} of a core while idle"
