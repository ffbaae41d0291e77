"""The executor's own step runner in the scheduler's simulation: two halves of one protocol, under all that befalls it.

The world asserts right tokens and clean endings; here, besides, the executor's accounts are checked after each message,
and a slice is never declined: what the scheduler counts as room is room, once it has been told of the quotas.
"""

import random
from collections import Counter, deque
from itertools import takewhile

import msgspec
import pytest

from services.executor.constraint.stage import NotCompiled
from services.executor.drafting import Drafting
from services.executor.kv_pool import make_pool
from services.executor.radix_cache import RadixCache
from services.executor.reuse import Reuse
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from services.scheduler import request
from shared import wire
from tests.simulation import tokens as simulated
from tests.simulation.fake_grammars import REFUSED, FakeGrammars
from tests.simulation.tokens import EOS, is_forced, token_at
from tests.simulation.world import Weather, World
from tests.support.recording_model import RecordingModel, RecordingShape

SEEDS = 100
PROMPT_TOKENS_FROM = 100  # the world's prompts use ids from here on, its outputs lower ones
VOCABULARY = 128
LONGEST_RUN = 12  # of forced tokens that are told at once
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


class FakeCursor:
    """Its constraint's source is the prompt, so it knows the one right output; of that, `is_forced` gives some away."""

    is_accepting, is_over = True, False

    def __init__(self, prompt: tuple[int, ...], position: int):
        self.prompt, self.position = prompt, position

    @property
    def forced(self):
        run = takewhile(lambda at: is_forced(self.prompt, at), range(self.position, self.position + LONGEST_RUN))
        return tuple(token_at(self.prompt, at) for at in run)

    def advance(self, token_id):
        assert token_id == token_at(self.prompt, self.position), "it stands elsewhere than its request"
        self.position += 1

    def copy(self):
        return FakeCursor(self.prompt, self.position)

    def allowed(self, token_ids):
        right = (token_at(self.prompt, at) for at in range(self.position, self.position + len(token_ids)))
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(token_ids, right, strict=True)))

    def leave(self):
        pass


class FakeStage:
    """What a `ConstraintStage` offers, without an engine. A mask allows everything: the model is right of itself."""

    def __init__(self, grammars: FakeGrammars, *, jumps: bool):
        self.grammars, self.jumps = grammars, jumps
        self.states = self
        self.eos_token_ids = frozenset()

    def forget_retired(self):
        pass

    def enter(self, constraint, output_token_ids):
        self.grammars.forget()
        if not self.grammars.has(constraint):
            raise NotCompiled
        prompt = tuple(int(token) for token in constraint.source.split(","))
        return FakeCursor(prompt, len(prompt) + len(output_token_ids))

    def fill(self, cursors, bits):
        bits[:] = -1
        return [None] * len(cursors)

    def leave(self, _cursor):
        pass

    def counters(self, forced_tokens):
        return wire.ConstraintCounters(forced_tokens=forced_tokens)


class RealExecutor:
    """What `FakeExecutor` offers to the world, by the shipped runner."""

    def __init__(self, rng: random.Random, weather: Weather, counts: Counter[str]):
        self.rng, self.counts = rng, counts
        capacity_tokens, page_size = weather.capacity_tokens, weather.page_size
        self.grammars = FakeGrammars(rng, weather.forgetfulness)
        stage = FakeStage(self.grammars, jumps=rng.random() < 0.8)
        drafting = Eager() if rng.random() < 0.7 else None
        self.info = wire.ExecutorInfo(
            "real",
            capacity_tokens,
            page_size,
            max_batch=8,
            max_model_len=4096,
            draft_tokens=8 if drafting else 0,
            forced_tokens=8 if stage.jumps else 0,
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
            constraints=stage,
        )
        self.reset()

    def reset(self):
        self.runner.reset()
        self.runner.check_integrity()
        self.plans: deque[wire.StepPlan] = deque()
        self.done_seq = 0
        self.grammars.asked.clear()

    def receive(self, message):
        match message:
            case wire.StepPlan():
                self.plans.append(message)
            case wire.Compile(constraint):
                self.grammars.asked.append(constraint)
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
        self.counts["forced"] += result.constraints.forced_tokens
        self.counts["grammars gone"] += sum(outcome.waiting == "grammar" for outcome in result.outcomes)
        self.runner.check_integrity()
        self.counts["resumed"] += sum(bool(admit.resume_token_ids) for admit in plan.admits)
        self.counts["cached"] += any(outcome.cached_tokens for outcome in result.outcomes)
        self.counts["drafts"] += result.extra_tokens
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

    def _executor(self):
        return RealExecutor(self.rng, self.weather, self.counts)

    def constraint(self, prompt):
        """One that says what output there is to be, or one that nobody can compile."""
        return wire.Constraint("regex", ",".join(map(str, prompt)) if self.rng.random() < 0.9 else REFUSED)


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
    assert len(counts) == 8
    assert min(counts.values()) > 0
