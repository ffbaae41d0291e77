#!/usr/bin/env python3
"""Time to first token of a long prompt, new to the server and seen before, in one run.

Each round sends a prompt that the server has never seen, then the same again; both sides run interleaved and the
medians are compared. Start a server first (`./scripts/serve`), then: scripts/bench/prefix.py
"""

import argparse
import json
import random
import statistics
import time

import httpx


def time_to_first_token(client: httpx.Client, prompt: list[int]) -> tuple[float, int]:
    """Seconds until the first token, and how many prompt tokens were cached."""
    body = {"input_ids": prompt, "stream": True, "sampling_params": {"max_new_tokens": 2, "temperature": 0}}
    started_s = time.perf_counter()
    with client.stream("POST", "/generate", json=body) as reply:
        reply.raise_for_status()
        events = (line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: "))
        first = json.loads(next(events))
        elapsed_s = time.perf_counter() - started_s
        for _ in events:
            pass
    return elapsed_s, first["meta_info"]["cached_tokens"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cold, warm = [], []
    with httpx.Client(base_url=arguments.url, timeout=300) as client:
        for _ in range(arguments.rounds):
            prompt = [random.randrange(1000, 40000) for _ in range(arguments.tokens)]
            cold_s, cold_cached = time_to_first_token(client, prompt)
            warm_s, warm_cached = time_to_first_token(client, prompt)
            cold.append(cold_s)
            warm.append(warm_s)
            print(f"cold {cold_s * 1e3:8.1f} ms, {cold_cached} cached", end="   ")
            print(f"warm {warm_s * 1e3:7.1f} ms, {warm_cached} cached")
    ratio = statistics.median(cold) / statistics.median(warm)
    print(f"median of {arguments.rounds}: cold {statistics.median(cold) * 1e3:.1f} ms, ", end="")
    print(f"warm {statistics.median(warm) * 1e3:.1f} ms, ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
