"""Planning stays cheap when thousands wait: what a result costs, from its arrival to the next plan."""

import statistics
import time

import pytest

from shared.link import Received
from tests.services.scheduler.hub import EXECUTOR, Hub, submit

WAITING = 5000
STEPS = 100
MEDIAN_LIMIT_S = 0.02  # far above what it takes (about 1 ms), since machines differ


def received(message, peer="tokenizer"):
    return Received(peer, message)


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_with_5000_waiting_a_plan_is_made_in_little_time(policy):
    hub = Hub(policy=policy, max_queued_requests=WAITING, max_running_requests=64)
    hub.join("gateway"), hub.join("detokenizer")
    for number in range(WAITING):
        prompt = tuple(range(number % 50, number % 50 + 8))
        hub.core.handle(received(submit(f"r{number}", prompt=prompt, max_new_tokens=200)))
    executor = hub.join_executor(capacity_tokens=20_000, max_batch=64)
    seconds = []
    for _ in range(STEPS):
        result = executor.step()
        start = time.perf_counter()
        commands = hub.core.handle(received(result, EXECUTOR))
        seconds.append(time.perf_counter() - start)
        for command in commands:
            if getattr(command, "peer", None) == EXECUTOR:
                executor.receive(command.message)
    assert hub.core.progress().waiting > WAITING / 2
    assert hub.core.progress().running > 8
    assert statistics.median(seconds) < MEDIAN_LIMIT_S
