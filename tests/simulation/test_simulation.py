"""The protocol around the scheduler's core, under everything that can befall it: hundreds of seeds, and mutants.

What each run must hold (the fakes and `World` assert it): slots are never over-committed, at most two plans are in
flight, each request ends exactly once and with the right tokens, nothing is left over, and all ends in bounded time.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import ceil, log2

import pytest

from services.scheduler import parking, policy, promises, request, trials
from shared import wire
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.world import Weather, World

SEEDS = 300
MUTANT_SEEDS = 150
POISONED_SEEDS = 40
GROWTH_TOKENS = 4  # little room to spare, so that outputs outgrow it and preemption is common
LEAST_PROMISE_TOKENS = GAIN_TOKENS = 4  # prompts are short here


@pytest.fixture(autouse=True)
def _small_scale(monkeypatch):
    monkeypatch.setattr(request, "GROWTH_TOKENS", GROWTH_TOKENS)
    monkeypatch.setattr(parking, "ASK_AGAIN_S", 3.0)
    monkeypatch.setattr(trials, "PATIENCE_S", 0.5)
    monkeypatch.setattr(trials, "TURN_S", 0.2)
    monkeypatch.setattr(promises, "LEAST_PROMISE_TOKENS", LEAST_PROMISE_TOKENS)
    monkeypatch.setattr(policy, "GAIN_TOKENS", GAIN_TOKENS)


def run_seeds(count: int, world: Callable[[int], World]) -> None:
    for seed in range(count):
        try:
            world(seed).run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


class CountingWorld(World):
    """Counts what happens, to show that the runs are as rough as they should be."""

    def __init__(self, seed, counts: Counter[str]):
        self.counts = counts
        super().__init__(seed)

    def tell_core(self, event):
        super().tell_core(event)
        self.counts["held back"] += sum(len(executor.promises) for executor in self.core.executors.values())

    def step(self, peer):
        deaths = self.deaths
        super().step(peer)
        self.counts["poisoned"] += self.deaths - deaths

    def post(self, source, target, message):
        match message:
            case wire.StepPlan():
                sizes = {s.num_tokens > 1 for s in message.slices}
                lanes = self.executors[target].lanes if target in self.executors else {}
                self.counts["gave way"] += sum(lanes[n].goes_on for n in message.release if n in lanes)
                self.counts["mixed steps"] += len(sizes) == 2
                self.counts["lanes used again"] += bool({a.lane for a in message.admits} & set(message.release))
                self.counts["moved"] += sum(bool(a.resume_token_ids) for a in message.admits)
            case wire.StepResult(outcomes=outcomes):
                self.counts["declined"] += sum(o.declined for o in outcomes)
                gained = [o.lane for o in outcomes if len(o.new_token_ids) > 1]
                forced = [number for number in gained if self.executors[source].lanes[number].admit.constraint]
                self.counts["forced runs"] += len(forced)
                self.counts["accepted drafts"] += len(gained) - len(forced)
                self.counts["grammars gone"] += sum(o.waiting == "grammar" for o in outcomes)
            case wire.Compiled(error=error):
                self.counts["Compiled" if error is None else "not compiled"] += 1
            case wire.TextUpdate(error=wire.Error(code="poisoned_request")):
                self.counts["given up"] += 1
            case wire.Lost() | wire.Cancel() | wire.Rejected():
                self.counts[type(message).__name__] += 1
        super().post(source, target, message)


def test_the_invariants_hold_over_hundreds_of_seeds():
    counts: Counter[str] = Counter()
    run_seeds(SEEDS, lambda seed: CountingWorld(seed, counts))
    assert len(counts) == 16
    assert min(counts.values()) >= 60, f"something hardly ever happens, so it is hardly tested: {counts}"


def test_poisoned_requests_are_given_up_at_a_bounded_cost():
    calm = {"abort": 0.0, "crash": 0.0, "restart": 0.0, "loss": 0.0, "flakiness": 0.0, "forgetfulness": 0.0}
    given_up = 0
    for seed in range(POISONED_SEEDS):
        weather = replace(Weather.draw(random.Random(seed)), poison=0.3, **calm)
        world = World(seed, weather=weather).run()
        poisoned = {prompt for gateway in world.gateways.values() for prompt in gateway.poisoned.values()}
        assert poisoned <= world.crashers, f"seed {seed}"
        assert world.deaths <= len(world.crashers) * (ceil(log2(weather.requests)) + 2), f"seed {seed}"
        given_up += len(poisoned)
    assert given_up >= POISONED_SEEDS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_caught(mutant: Mutant, monkeypatch):
    mutant.plant(monkeypatch)
    with pytest.raises(Exception, match=mutant.complaint):
        run_seeds(MUTANT_SEEDS, World)
