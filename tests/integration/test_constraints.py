"""Constrained outputs on the real model, checked by those who define what is right; hostile ones hurt nobody."""

import asyncio
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest

from scripts.bench.structured import schemas
from scripts.bench.structured.hostile import attacks
from scripts.bench.structured.kinds import KINDS, PERSON
from scripts.bench.structured_output import ask_all
from tests.support.deployment import deployed, sse

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Describe a person in one short line of JSON."}]
LONGEST_GAP_S = 1.0


def chat(server, **fields):
    body = {"model": "default", "messages": MESSAGES, "temperature": 0, "max_tokens": 200}
    reply = server.post(CHAT, body | fields)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_every_answer_that_ends_by_itself_is_right(server):
    answers = asyncio.run(ask_all(server.url, KINDS, 2 * len(KINDS), at_once=16))
    assert [answer for answer in answers if answer.problem is not None] == []
    ended = [answer for answer in answers if answer.finish_reason != "length"]
    assert len(ended) >= len(answers) - 3


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.most_tokens <= 300], ids=lambda kind: kind.name)
def test_streamed_and_whole_agree(server, kind):
    body = kind.body("a baker in Lyon", 1.0, 11)
    whole = server.post(CHAT, body).json()["choices"][0]
    content, arguments, reasons = "", {}, []
    with httpx.stream("POST", f"{server.url}{CHAT}", json=body | {"stream": True}, timeout=120) as reply:
        for event in sse(reply.iter_lines()):
            [choice] = event["choices"]
            content += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                arguments[call["index"]] = arguments.get(call["index"], "") + call["function"]["arguments"]
            reasons.append(choice["finish_reason"])
    assert content == (whole["message"]["content"] or "")
    calls = whole["message"].get("tool_calls") or []
    assert list(arguments.values()) == [call["function"]["arguments"] for call in calls]
    assert reasons[-1] == whole["finish_reason"]
    assert set(reasons[:-1]) == {None}


def test_what_is_cut_says_so(server):
    choice = chat(server, regex=PERSON, max_tokens=5)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert not re.fullmatch(PERSON, choice["message"]["content"])


def test_forced_tokens_have_log_probabilities(server):
    reply = chat(server, logprobs=True, top_logprobs=2, response_format=form(schemas.PERSON))
    choice = reply["choices"][0]
    entries = choice["logprobs"]["content"]
    assert len(entries) == reply["usage"]["completion_tokens"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)


def test_with_and_without_log_probabilities_the_text_is_the_same(server):
    texts = {
        chat(server, logprobs=logprobs, response_format=form(schemas.PERSON))["choices"][0]["message"]["content"]
        for logprobs in (False, True)
    }
    assert len(texts) == 1


def test_a_stop_string_ends_a_constrained_output_too(server):
    choice = chat(server, response_format=form(schemas.PERSON), stop=['"age"'])["choices"][0]
    assert choice["message"]["content"].startswith('{"name": "')
    assert '"age"' not in choice["message"]["content"]


def test_several_at_once_share_what_was_found_out(server):
    def counter(name):
        return server.metric(f"sapwood_constraint_{name}_total")

    fields = {"response_format": form(schemas.closed({"answer": {"type": "string", "maxLength": 30}}))}
    chat(server, **fields)
    computed, inherited = counter("computed_masks"), counter("inherited_masks")
    chat(server, **fields)
    assert counter("computed_masks") == computed
    assert counter("inherited_masks") > inherited
    assert counter("forced_tokens") > 0


def test_choices_through_the_native_interface(server):
    answer = server.generate("Is the sky blue? Answer:", max_new_tokens=8, choices=[" yes", " no"])
    assert answer["text"] in (" yes", " no")
    assert answer["meta_info"]["finish_reason"]["type"] == "stop"


def test_a_schema_through_the_native_interface(server):
    answer = server.generate("A person:", max_new_tokens=100, json_schema=json.dumps(schemas.PERSON))
    jsonschema.validate(json.loads(answer["text"]), schemas.PERSON)


def test_hostile_constraints_are_refused_or_contained(server):
    gaps, stop = [], threading.Event()

    def bystander():
        body = {
            "text": "A long story:",
            "stream": True,
            "sampling_params": {"max_new_tokens": 3000, "ignore_eos": True},
        }
        with httpx.stream("POST", f"{server.url}/generate", json=body, timeout=120) as reply:
            last_s = time.monotonic()
            for line in reply.iter_lines():
                if line:
                    gaps.append(time.monotonic() - last_s)
                    last_s = time.monotonic()
                if stop.is_set():
                    return

    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(bystander)
        for attack in attacks():
            reply = server.post(CHAT, attack.body())
            assert reply.status_code in attack.statuses, (attack.name, reply.text[:500])
        stop.set()
        watched.result(60)
    assert max(gaps[1:]) < LONGEST_GAP_S
    assert httpx.get(f"{server.url}/health").status_code == 200
    assert chat(server, max_tokens=4)["usage"]["completion_tokens"] > 0


def test_jumping_can_be_turned_off_and_changes_no_text(tmp_path, server):
    fields = {"response_format": form(schemas.PERSON)}
    expected = chat(server, **fields)["choices"][0]["message"]["content"]
    with deployed(tmp_path / "walking", "--disable-jump-forward", "--max-total-tokens", "4096") as walking:
        assert chat(walking, **fields)["choices"][0]["message"]["content"] == expected


def form(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
