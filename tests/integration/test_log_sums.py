"""The log's accounts of requests against the counters in /metrics and against what the clients were told."""

import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.deployment import deployed, sse, wait_until

STORY = ["received", "encoded", "accepted", "matched", "started", "finished", "detokenized", "request"]
KINDS = ("plain", "stream", "samples", "prompts", "pattern", "stop", "left", "wrong")
COUNTED = re.compile(
    r"^(sapwood_(?:requests|prompt_tokens|decode_tokens|cache_hit|cache_miss|resubmissions)_total\S*) "
)
PATIENCE_S = 60


def body_of(kind, number):
    prompt = f"{number % 7} little birds sat on a wall. One of them"
    body = {"prompt": prompt, "max_tokens": 6, "temperature": 0}
    match kind:
        case "stream" | "left":
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            body |= {"max_tokens": 200, "ignore_eos": True} if kind == "left" else {}
        case "samples":
            body |= {"n": 2, "temperature": 1}
        case "prompts":
            body |= {"prompt": [prompt, "Another tale"]}
        case "pattern":
            body |= {"regex": "(north|south) by (east|west)"}
        case "stop":
            body |= {"stop": ["e"], "max_tokens": 30}
        case "wrong":
            body |= {"top_p": 5}
    return body


def ask(url, kind, number):
    """The request's id, its kind, and its usage; of one that was left, how many pieces there were before."""
    body = body_of(kind, number)
    if not body.get("stream"):
        reply = httpx.post(f"{url}/v1/completions", json=body, timeout=PATIENCE_S)
        assert reply.status_code == (400 if kind == "wrong" else 200), reply.text
        return reply.headers["x-request-id"], kind, reply.json().get("usage")
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=PATIENCE_S) as reply:
        request_id, events = reply.headers["x-request-id"], sse(reply.iter_lines())
        if kind == "left":
            return request_id, kind, sum(bool(next(events)["choices"]) for _ in range(3))
        return request_id, kind, [event for event in events if event.get("usage")][-1]["usage"]


def counters(url):
    text = httpx.get(f"{url}/metrics").text
    return Counter({found[1]: float(line.split()[-1]) for line in text.splitlines() if (found := COUNTED.match(line))})


def play(deployment, count, at_once, between=lambda number: None):
    """Ask all of them; afterwards the accounts are what clients and counters say."""
    kinds = [random.Random(number).choice(KINDS) for number in range(count)]

    def one(number):
        between(number)
        return ask(deployment.url, kinds[number], number)

    before = counters(deployment.url)
    with ThreadPoolExecutor(at_once) as pool:
        asked = list(pool.map(one, range(count)))
    ids = {request_id for request_id, *_ in asked}

    def accounts():
        found = {line["request_id"]: line for line in deployment.lines("request") if line["request_id"] in ids}
        return found if len(found) == count else None

    lines = wait_until(accounts, PATIENCE_S, "a line for each request")
    compare(lines, asked)
    assert counters(deployment.url) - before == expected(lines.values())
    return lines, asked


def compare(lines, asked):
    for request_id, kind, told in asked:
        line = lines[request_id]
        match kind:
            case "wrong":
                assert (line["outcome"], line["error"]) == ("refused", "invalid_value")
            case "left":
                assert line["outcome"] == "client_closed"
                assert line["completion_tokens"] >= told
            case _:
                assert line["outcome"] == "ok"
                cached = told["prompt_tokens_details"]["cached_tokens"]
                told = (told["prompt_tokens"], cached, told["completion_tokens"])
                assert (line["prompt_tokens"], line["cached_tokens"], line["completion_tokens"]) == told


def expected(lines):
    sums = Counter()
    for line in lines:
        sums[f'sapwood_requests_total{{outcome="{line["outcome"]}",route="{line["route"]}"}}'] += 1
        sums["sapwood_prompt_tokens_total"] += line.get("prompt_tokens", 0)
        sums["sapwood_decode_tokens_total"] += line.get("completion_tokens", 0)
        sums['sapwood_cache_hit_total{type="radix"}'] += line.get("cached_tokens", 0)
        sums['sapwood_cache_miss_total{type="radix"}'] += line.get("prompt_tokens", 0) - line.get("cached_tokens", 0)
        sums["sapwood_resubmissions_total"] += line.get("attempts", 1) - 1
    return +sums


def test_the_sums_over_the_accounts_are_the_counters_and_the_clients_usage(server):
    lines, asked = play(server, 60, at_once=8)
    assert {kind for _, kind, _ in asked} == set(KINDS)
    patterns = [lines[request_id] for request_id, kind, _ in asked if kind == "pattern"]
    assert all(0 < line["forced_tokens"] < line["completion_tokens"] for line in patterns)
    assert all(line["forward_steps"] > 0 for line in lines.values() if line["outcome"] == "ok")


def test_all_lines_of_a_request_tell_its_story_in_order_in_the_files_too(server):
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    body = {"text": "Once upon a time", "sampling_params": {"max_new_tokens": 4}}
    reply = httpx.post(f"{server.url}/generate", json=body, headers=headers, timeout=PATIENCE_S)
    request_id = reply.headers["x-request-id"]

    def story():
        events = {event: line for event in STORY for line in server.lines(event) if line["request_id"] == request_id}
        return sorted(events.values(), key=lambda line: line["timestamp"]) if len(events) == len(STORY) else None

    lines = wait_until(story, PATIENCE_S, "the whole story")
    assert [line["event"] for line in lines] == STORY
    assert {line["trace_id"] for line in lines} == {trace_id}
    kept = "".join(path.read_text() for path in (server.run_dir / "logs").glob("*.jsonl"))
    assert sum(request_id in line for line in kept.splitlines()) == len(STORY)


@pytest.mark.soak
def test_the_sums_hold_with_faults(tmp_path):
    faults = {150: "executor-1", 350: "detokenizer-1", 550: "tokenizer-1", 750: "scheduler", 900: "executor-1"}
    with deployed(tmp_path, "--tokenizers", "2", "--set", "gateway.stall_timeout_s=20") as deployment:

        def between(number):
            if number in faults:
                deployment.kill(faults[number])

        lines, _ = play(deployment, 1000, at_once=16, between=between)
        assert any(line.get("attempts", 1) > 1 for line in lines.values())
