#!/usr/bin/env python3
"""What a step costs the scheduler while thousands wait: from a result's arrival to the next plan, by policy.

The scheduler's core and the executor's step runner and tree are the shipped ones; the model computes nothing, so the
requests stream through. The same requests arrive once with an empty queue (a few at a time) and once all together.

    .venv/bin/python scripts/bench/planning.py [--waiting 5000] [--policies lpm fcfs]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import msgspec
import torch
from torch import Tensor

from services.executor.kv_pool import make_pool
from services.executor.model.forward import Batch
from services.executor.radix_cache import RadixCache
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from services.scheduler.core import Core
from services.scheduler.events import Send
from shared import wire
from shared.config import SchedulerConfig
from shared.link import Joined, Received

VOCABULARY = 512
POOL_TOKENS = 200_000
HEADS, HEAD_TOKENS, TAIL_TOKENS, NEW_TOKENS = 50, 600, 40, 40
RUNNING = 64
STEP_S = 0.1  # what a step is said to take


@dataclass(frozen=True)
class Shape:
    vocab_size: int = VOCABULARY
    layers: int = 1
    kv_heads: int = 1
    head_dim: int = 1


class NoModel:
    shape = Shape()
    device = torch.device("cpu")
    dtype = torch.float32

    def forward(self, batch: Batch, _keys: Tensor, _values: Tensor) -> Tensor:
        return torch.zeros(len(batch.logits_rows), VOCABULARY)


class World:
    """One gateway, one detokenizer and one executor around a core."""

    def __init__(self, policy: str) -> None:
        config = SchedulerConfig(
            policy=policy,
            max_queued_requests=100_000,
            max_queued_tokens=100_000_000,
            max_running_requests=RUNNING,
        )
        self.core = Core(config, hang_timeout_s=60.0, now_s=0.0)
        self.plans: deque[wire.StepPlan] = deque()
        slots = SlotAllocator(POOL_TOKENS)
        pool = make_pool(NoModel.shape, POOL_TOKENS, device=NoModel.device, dtype=NoModel.dtype)
        self.runner = StepRunner(NoModel(), pool, slots, RadixCache(slots), eos_token_ids=(), max_model_len=8192)
        info = wire.ExecutorInfo("none", POOL_TOKENS, 1, max_batch=RUNNING, max_model_len=8192)
        for role in ("gateway", "detokenizer", "executor"):
            hello = wire.Hello(role, wire.PROTOCOL, role, info if role == "executor" else None)
            self.core.handle(Joined(role, hello))
        self.hear("executor", wire.Heartbeat(wire.Progress()))

    def hear(self, peer: str, message: wire.Message) -> None:
        for command in self.core.handle(Received(peer, message)):
            if isinstance(command, Send) and isinstance(command.message, wire.StepPlan):
                self.plans.append(command.message)

    def step(self) -> float:
        """Run a plan. Returns how long its result kept the scheduler, in ms."""
        result = msgspec.structs.replace(self.runner.run(self.plans.popleft()), times=wire.StageTimes(STEP_S))
        start_s = time.perf_counter()
        self.hear("executor", result)
        return (time.perf_counter() - start_s) * 1e3


def submits(count: int) -> Iterator[wire.Submit]:
    chance = random.Random(1)
    heads = [chance.choices(range(VOCABULARY), k=HEAD_TOKENS) for _ in range(HEADS)]
    for number in range(count):
        prompt = (*chance.choice(heads), *chance.choices(range(VOCABULARY), k=TAIL_TOKENS))
        sampling = wire.Sampling(seed=1, temperature=0.0)
        yield wire.Submit(f"r{number}", 1, "gateway", prompt, sampling, wire.TextOptions(), NEW_TOKENS)


def measure(policy: str, waiting: int, steps: int) -> list[float]:
    """Milliseconds of each step, with so many more requests in the queue than can run."""
    world = World(policy)
    requests = submits(waiting + RUNNING + steps * RUNNING)
    for _ in range(waiting + RUNNING):
        world.hear("tokenizer", next(requests))
    spent = []
    while len(spent) < steps:
        spent.append(world.step())
        while world.core.progress().waiting < waiting or not world.plans:
            world.hear("tokenizer", next(requests))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--policies", nargs="+", default=["lpm", "fcfs", "dfs-weight", "lof", "priority"])
    arguments = parser.parse_args()
    print(f"{'policy':12}{'none waits':>12}{'median':>10}{'p95':>10}{'max':>10}  ms with {arguments.waiting} waiting")
    for policy in arguments.policies:
        alone = statistics.median(measure(policy, 0, arguments.steps))
        spent = sorted(measure(policy, arguments.waiting, arguments.steps))
        p95 = spent[int(0.95 * len(spent))]
        print(f"{policy:12}{alone:12.2f}{statistics.median(spent):10.2f}{p95:10.2f}{spent[-1]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
