"""Requests that crash or hang their executor: the others' streams are whole. What a scheduler's death leaves."""

import itertools
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.deployment import deployed, sse, wait_until
from tests.support.failing_executor import CRASH_TOKEN, HANG_TOKEN, MARK_VARIABLE

pytestmark = pytest.mark.soak

NEIGHBOURS = 15
TOKENS = 150
HANG_TIMEOUT_S = 10
POISON = [7, 7, 7]
RULES = [
    {"match": POISON, "delay_s": 0.02, "fault": {"kind": "exit", "at": 3, "resumed_too": True}},
    {"delay_s": 0.02},
]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "script.json").write_text(json.dumps(RULES))
    module = ("--set", "executor.module=tests.support.scripted_executor")
    with deployed(folder / "run", *module, "--set", f"executor.script={folder / 'script.json'}") as deployment:
        yield deployment


def stream(deployment, token_ids):
    """The events of a stream, and the longest pause between two of them."""
    sampling = {"max_new_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    body = {"input_ids": token_ids, "sampling_params": sampling, "stream": True}
    times = [time.monotonic()]
    events = []
    with httpx.stream("POST", f"{deployment.url}/generate", json=body, timeout=120) as reply:
        for event in sse(reply.iter_lines()):
            events.append(event)
            times.append(time.monotonic())
            if "error" in event:  # nothing follows
                break
    return events, max(later - earlier for earlier, later in itertools.pairwise(times))


def test_a_poisoned_request_ends_alone_and_its_neighbours_are_whole(scripted):
    prompts = [[100 + number, 200, 300] for number in range(NEIGHBOURS)]
    started_s = time.monotonic()
    with ThreadPoolExecutor(NEIGHBOURS + 1) as pool:
        poisoned = pool.submit(stream, scripted, POISON)
        others = [pool.submit(stream, scripted, prompt) for prompt in prompts]
        events, _ = poisoned.result()
        poisoned_s = time.monotonic() - started_s
        finals = [future.result() for future in others]
    assert events[-1]["error"]["code"] == "poisoned_request"
    for prompt, (events, _) in zip(prompts, finals, strict=True):
        assert events[-1]["output_ids"] == (prompt * TOKENS)[:TOKENS]
        assert events[-1]["meta_info"]["finish_reason"]["type"] == "length"
    restarts = scripted.status("executor-1")["restarts"]
    pause_s = max(pause_s for _, pause_s in finals)
    print(f"{restarts} deaths, given up after {poisoned_s:.1f} s, longest pause of a neighbour {pause_s:.1f} s")
    assert restarts <= 4 + 2, "16 were in flight"
    wait_until(lambda: httpx.get(f"{scripted.url}/ready").status_code == 200, 30, "ready again")
    assert scripted.generate([1, 2, 3], max_new_tokens=2)["output_ids"] == [1, 2]


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Float32: the same tokens whoever is beside it."""
    folder = tmp_path_factory.mktemp("failing")
    module = ("--set", "executor.module=tests.support.failing_executor", "--dtype", "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK_VARIABLE, str(folder / "mark"))
        with deployed(folder / "run", *module, "--set", f"supervisor.hang_timeout_s={HANG_TIMEOUT_S}") as deployment:
            deployment.mark = folder / "mark"
            yield deployment


def test_an_executor_whose_step_hangs_is_killed_and_its_streams_go_on(failing):
    prompts = [[1000 + number, 2000, 3000] for number in range(4)] + [[1000, HANG_TOKEN]]
    with ThreadPoolExecutor(len(prompts)) as pool:
        expected = list(pool.map(lambda prompt: stream(failing, prompt)[0][-1]["output_ids"], prompts))
        failing.mark.touch()
        failing.post("/flush_cache", {})
        outcomes = list(pool.map(lambda prompt: stream(failing, prompt), prompts))
    assert not failing.mark.exists(), "it has hung"
    assert [events[-1]["output_ids"] for events, _ in outcomes] == expected
    assert failing.status("executor-1")["restarts"] == 1
    killed = failing.lines("process_killed")
    assert [(line["process"], line["reason"]) for line in killed] == [
        ("executor-1", f"its work stands still for {HANG_TIMEOUT_S} s")
    ]
    print(f"longest pause {max(pause_s for _, pause_s in outcomes):.1f} s at a limit of {HANG_TIMEOUT_S} s")


def test_a_poisoned_request_at_the_real_executor(failing):
    restarts = failing.status("executor-1")["restarts"]
    prompts = [[1000 + number, 2000, 3000] for number in range(7)]
    with ThreadPoolExecutor(len(prompts) + 1) as pool:
        expected = list(pool.map(lambda prompt: stream(failing, prompt)[0][-1]["output_ids"], prompts))
        others = [pool.submit(stream, failing, prompt) for prompt in prompts]
        wait_until(lambda: failing.metric("sapwood_running_requests") == len(prompts), 60, "all others run")
        bad = failing.post("/generate", {"input_ids": [1000, CRASH_TOKEN], "sampling_params": {"max_new_tokens": 8}})
        outcomes = [other.result() for other in others]
    assert (bad.status_code, bad.json()["error"]["code"]) == (500, "poisoned_request")
    assert [events[-1]["output_ids"] for events, _ in outcomes] == expected
    deaths = failing.status("executor-1")["restarts"] - restarts
    assert deaths <= 3 + 2, "8 were in flight"
    print(f"{deaths} deaths, longest pause {max(pause_s for _, pause_s in outcomes):.1f} s")


def test_a_gateway_that_stands_still_is_started_again(failing):
    restarts = failing.status("gateway")["restarts"]
    stopped_s = time.monotonic()
    failing.kill("gateway", signal.SIGSTOP)
    failing.wait_restarted("gateway", restarts + 1)
    wait_until(lambda: httpx.get(f"{failing.url}/ready").status_code == 200, 30, "ready again")
    print(f"ready again after {time.monotonic() - stopped_s:.1f} s at a limit of {HANG_TIMEOUT_S} s")


def test_the_cache_outlives_the_scheduler(failing):
    prompt = list(range(2000, 2300))
    failing.generate(prompt, max_new_tokens=1)
    failing.kill("scheduler")
    failing.wait_restarted("scheduler")
    cached_tokens = failing.generate(prompt, max_new_tokens=1)["meta_info"]["cached_tokens"]
    assert cached_tokens == len(prompt) - 1
