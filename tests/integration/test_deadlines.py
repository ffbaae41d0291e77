"""Requests whose time is up."""

import time

import httpx
import pytest

from tests.support.deployment import wait_until

ENDLESS = {"max_new_tokens": 5000, "ignore_eos": True, "temperature": 0}


def is_idle(server):
    return server.metric("sapwood_kv_pinned_tokens") == 0 and server.metric("sapwood_running_requests") == 0


@pytest.mark.parametrize("streaming", [True, False])
def test_it_ends_in_time_says_so_and_frees_its_kv(server, streaming):
    wait_until(lambda: is_idle(server), 10, "idle before")
    body = {"text": "Count to a million: one, two,", "stream": streaming, "timeout": 2.0, "sampling_params": ENDLESS}
    sent_s = time.monotonic()
    with httpx.stream("POST", f"{server.url}/generate", json=body, timeout=30) as reply:
        if streaming:
            assert reply.status_code == 200
            events = [line for line in reply.iter_lines() if line.startswith("data: ")]
            assert "deadline_exceeded" in events[-1]
            assert len(events) > 1
        else:
            assert (reply.status_code, "deadline_exceeded" in reply.read().decode()) == (504, True)
    assert 1.9 < time.monotonic() - sent_s < 3.5
    wait_until(lambda: is_idle(server), 2, "KV given back")
