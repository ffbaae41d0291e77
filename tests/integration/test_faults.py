"""Any stage may be killed under open streams: every stream completes, with the tokens of an undisturbed run."""

import itertools
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.deployment import deployed, sse, wait_until

STREAMS = 8
TOKENS = 40
# Of endless outputs, with many forced tokens and with none.
REGEXES = (None, r'(\{"name": "[a-z]{1,6}", "age": [0-9]{1,2}\} )*', None, "[A-Za-z ,.]*")


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """All in float32: with halves, or 16-bit products, a draw on an edge falls either way more often.

    What a request is batched with changes the order of sums, and so the last bits of its logits.
    """
    in_float32 = ("--dtype", "float32")
    stages = ("--tokenizers", "3", "--detokenizers", "2")
    with deployed(tmp_path_factory.mktemp("fragile"), *stages, *in_float32) as deployment:
        yield deployment


def body(number):
    sampling = {"temperature": number // 4 * 0.8, "seed": number, "max_new_tokens": TOKENS, "ignore_eos": True}
    if (regex := REGEXES[number % 4]) is not None:
        sampling["regex"] = regex
    return {"text": f"Story number {number}: the old sailor", "sampling_params": sampling}


def stream(deployment, number, first_event):
    with httpx.stream("POST", f"{deployment.url}/generate", json=body(number) | {"stream": True}, timeout=120) as reply:
        events = []
        for event in sse(reply.iter_lines()):
            events.append(event)
            first_event.set()
    finals = [event for event in events if event["meta_info"]["finish_reason"] is not None]
    assert len(finals) == 1
    assert events[-1] is finals[0]
    assert all(later["text"].startswith(earlier["text"]) for earlier, later in itertools.pairwise(events))
    return events[-1]


@pytest.fixture(scope="module")
def undisturbed(fragile):
    with ThreadPoolExecutor(STREAMS) as pool:
        return list(pool.map(lambda n: stream(fragile, n, threading.Event()), range(STREAMS)))


@pytest.mark.parametrize("victim", ["tokenizer-1", "executor-1", "scheduler", "detokenizer-1"])
def test_every_stream_completes_when_a_stage_is_killed(fragile, undisturbed, victim):
    restarts = fragile.status(victim)["restarts"]
    running = [threading.Event() for _ in range(STREAMS)]
    with ThreadPoolExecutor(STREAMS) as pool:
        futures = [pool.submit(stream, fragile, n, running[n]) for n in range(STREAMS)]
        wait_until(lambda: all(event.is_set() for event in running), 60, "every stream has begun")
        fragile.kill(victim)
        finals = [future.result() for future in futures]
    for final, expected in zip(finals, undisturbed, strict=True):
        assert final["meta_info"]["completion_tokens"] == TOKENS
        assert final["output_ids"] == expected["output_ids"]
        assert final["text"] == expected["text"]
    if victim != "tokenizer-1":  # its part was over when every stream had begun
        assert any(line["attempts"] > 1 for line in fragile.lines("request")[-STREAMS:]), "the kill hit no stream"
    fragile.wait_restarted(victim, restarts + 1)
    wait_until(lambda: httpx.get(f"{fragile.url}/ready").status_code == 200, 60, "ready again")


def test_a_tokenizer_stopped_in_the_middle_of_its_work_loses_no_request(fragile):
    """SIGSTOP, then SIGKILL: the requests it holds are certainly in the middle of their encoding."""
    wait_until(lambda: httpx.get(f"{fragile.url}/ready").status_code == 200, 60, "ready")
    fragile.kill("tokenizer-2", signal.SIGSTOP)
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(fragile.generate, f"Number {n} is", max_new_tokens=4) for n in range(9)]
        time.sleep(0.5)
        fragile.kill("tokenizer-2", signal.SIGKILL)
        replies = [future.result(60) for future in futures]
    assert all(reply["meta_info"]["completion_tokens"] == 4 for reply in replies)


def test_work_is_shared_and_a_late_tokenizer_takes_its_part(fragile):
    wait_until(lambda: httpx.get(f"{fragile.url}/ready").status_code == 200, 60, "ready")
    fragile.start_extra("tokenizer", "tokenizer-4")

    def everyone_worked():
        fragile.generate("Hi", max_new_tokens=1)
        services = {line["service"] for line in fragile.lines("encoded")}
        return services >= {"tokenizer-1", "tokenizer-2", "tokenizer-3", "tokenizer-4"}

    wait_until(everyone_worked, 30, "four tokenizers in the log")
