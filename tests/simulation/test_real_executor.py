"""The executor's own step runner in the scheduler's simulation: two halves of one protocol, under all that befalls it.

The world asserts right tokens and clean endings; here, besides, the executor's accounts are checked after each message,
and a slice is never declined: what the scheduler counts as room is room, once it has been told of the quotas.
"""

import random
from collections import Counter, deque
from dataclasses import replace
from itertools import takewhile

import msgspec
import pytest

from services.executor.drafting import Drafting
from services.executor.kv_pool import make_pool
from services.executor.radix_cache import RadixCache
from services.executor.reuse import Reuse
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from services.scheduler import request
from shared import wire
from tests.simulation import tokens as simulated
from tests.simulation.tokens import EOS, token_at
from tests.simulation.world import World
from tests.support.recording_model import RecordingModel, RecordingShape

SEEDS = 100
PROMPT_TOKENS_FROM = 100  # the world's prompts use ids from here on, its outputs lower ones
VOCABULARY = 128
KNOWS_NO_QUOTAS = 2  # plans under a new grant, made before the first result tells of the tenants' quotas


def rule(context, _vocab_size):
    prompt = takewhile(lambda token: token >= PROMPT_TOKENS_FROM, context)
    return token_at(tuple(prompt), len(context))


class Eager(Drafting):
    """Drafts whatever there is to draft."""

    def pays(self, acceptance: float, rows: int) -> int:
        return self.most_tokens


class CheapFor(Reuse):
    """Keeps one namespace cheaply, whatever it finds."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace

    def note(self, namespace: str, *, prompt_tokens: int, hit_tokens: int) -> bool:
        return namespace == self.namespace


class RealExecutor:
    """What `FakeExecutor` offers to the world, by the shipped runner."""

    def __init__(self, rng: random.Random, capacity_tokens: int, page_size: int, counts: Counter[str]):
        self.rng, self.counts = rng, counts
        drafting = Eager() if rng.random() < 0.7 else None
        self.info = wire.ExecutorInfo(
            "real", capacity_tokens, page_size, max_batch=8, max_model_len=4096, draft_tokens=8 if drafting else 0
        )
        model = RecordingModel(RecordingShape(VOCABULARY), rule=rule)
        slots = SlotAllocator(capacity_tokens, page_size)
        pool = make_pool(model.shape, capacity_tokens, device=model.device, dtype=model.dtype)
        reuse = CheapFor("0") if rng.random() < 0.5 else None
        self.runner = StepRunner(
            model,
            pool,
            slots,
            RadixCache(slots),
            eos_token_ids=[EOS],
            max_model_len=4096,
            reuse=reuse,
            drafting=drafting,
        )
        self.reset()

    to_compile = ()  # nothing is constrained here

    def reset(self):
        self.runner.reset()
        self.runner.check_integrity()
        self.plans: deque[wire.StepPlan] = deque()
        self.done_seq = 0

    def receive(self, message):
        match message:
            case wire.StepPlan():
                self.plans.append(message)
            case wire.Cancel(lanes):
                self.counts["cancelled"] += 1
                self.runner.cancel(lanes)
                self.runner.check_integrity()

    def tree(self):
        """The first word under a grant."""
        self.runner.cache.take_events()
        return wire.TreeChanged(self.runner.cache.snapshot())

    def can_step(self):
        return bool(self.plans) and self.plans[0].seq == self.done_seq + 1

    def step(self):
        plan = self.plans.popleft()
        self.done_seq += 1
        result = self.runner.run(plan)
        self.runner.check_integrity()
        self.counts["resumed"] += sum(bool(admit.resume_token_ids) for admit in plan.admits)
        self.counts["cached"] += any(outcome.cached_tokens for outcome in result.outcomes)
        self.counts["drafts"] += result.drafted_tokens
        self.counts["accepted"] += sum(len(outcome.new_token_ids[1:]) for outcome in result.outcomes)
        self.counts["evicted"] += bool(result.cache.evicted_tokens)
        for outcome in result.outcomes:
            assert not outcome.declined or plan.seq <= KNOWS_NO_QUOTAS, "over-committed"
            assert outcome.error is None
        tokens = sum(piece.num_tokens for piece in plan.slices)
        seconds = self.rng.choice((1, 1, 1, 3)) * (0.004 + 0.002 * tokens)
        return msgspec.structs.replace(result, times=wire.StageTimes(seconds))

    @property
    def lanes(self):
        """Numbers that are not free."""
        return [*self.runner._lanes, *self.runner._over]

    @property
    def pinned_tokens(self):
        return self.runner.capacity().pinned_tokens


class RealWorld(World):
    def __init__(self, seed: int, counts: Counter[str]):
        self.counts = counts
        super().__init__(seed)
        self.weather = replace(self.weather, constrained=0.0)

    def _executor(self):
        return RealExecutor(self.rng, self.weather.capacity_tokens, self.weather.page_size, self.counts)


def test_scheduler_and_executor_hold_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "GROWTH_TOKENS", 4)  # little room to spare, so that preemption happens
    monkeypatch.setattr(simulated, "VOCABULARY", 2)  # outputs that repeat themselves
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            RealWorld(seed, counts).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert len(counts) == 6
    assert min(counts.values()) > 0
