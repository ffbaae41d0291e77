import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.budget import FIRST_STEP_TOKENS, SURE_CHUNK_TOKENS, CostModel, StepBudget, Work

BUDGET_S = 0.25
LIMIT_S = 0.3


class Machine:
    """A synthetic truth: seconds = step + slice + token + pair + read costs, times noise, now and then a hiccup."""

    def __init__(self, *, speed=1.0, noise=0.0, hiccups=0.0, seed=0):
        self.speed, self.noise, self.hiccups, self.rng = speed, noise, hiccups, random.Random(seed)

    def seconds(self, work: Work) -> float:
        exact = 0.012 + 2e-4 * work.slices + 2.2e-3 * work.tokens + 1.5e-6 * work.pairs + 2e-6 * work.read
        hiccup = 10.0 if self.rng.random() < self.hiccups else 1.0
        return exact / self.speed * self.rng.uniform(1 - self.noise, 1 + self.noise) * hiccup


def serve(model, machine, *, prompts=40, decodes=8):
    """Prompts in turn beside running decodes, as the planner would do it. Returns each step's (tokens, seconds)."""
    steps = []
    for number in range(prompts):
        length, done = 300 + 397 * number % 3000, 0
        while done < length:
            budget = StepBudget(model, BUDGET_S, 512)
            for lane in range(decodes):
                if budget.decode(1, 200 * lane):
                    budget.spend_decode(1, 200 * lane)
            chunk = budget.chunk(length - done, done) or min(SURE_CHUNK_TOKENS, length - done)
            budget.spend_chunk(chunk, done)
            done += chunk
            seconds = machine.seconds(budget.work)
            model.observe(budget.work, seconds)
            steps.append((budget.work.tokens, seconds))
    return steps


def test_it_learns_what_steps_cost_and_uses_the_budget():
    model, machine = CostModel(BUDGET_S), Machine()
    steps = serve(model, machine)
    full = [seconds for tokens, seconds in steps[-100:] if tokens > 50]
    assert max(full) <= LIMIT_S
    assert sum(full) / len(full) > 0.8 * BUDGET_S
    for work in (Work().plus(1, 500), Work().plus(64, 0), Work().plus(64, 2000)):
        assert model.seconds(work) == pytest.approx(machine.seconds(work), rel=0.3)


@pytest.mark.parametrize("speed", [0.2, 1.0, 50.0])
def test_from_the_first_step_on_nearly_none_is_too_long_on_slow_and_noisy_machines_alike(speed):
    steps = serve(CostModel(BUDGET_S), Machine(speed=speed, noise=0.15))
    floor_s = (0.05 + SURE_CHUNK_TOKENS * 2.2e-3 + 8 * 3e-3 + 16 * 3300 * 1.5e-6) / speed  # the least that a step does
    late = [seconds for _, seconds in steps if seconds > max(LIMIT_S, floor_s)]
    assert len(late) <= 0.02 * len(steps)


def test_the_first_steps_are_small_and_none_is_more_than_twice_the_largest_before():
    steps = serve(CostModel(BUDGET_S), Machine(speed=100.0), prompts=5, decodes=0)
    tokens = [tokens for tokens, _ in steps]
    assert tokens[0] == FIRST_STEP_TOKENS
    assert all(now <= 2 * max(tokens[: at + 1]) for at, now in enumerate(tokens[1:]))
    assert max(tokens) == 512


def test_hiccups_are_not_taken_for_the_cost_of_work():
    model, machine = CostModel(BUDGET_S), Machine(noise=0.1, hiccups=0.03)
    serve(model, machine)
    work = Work().plus(64, 500)
    assert model.seconds(work) <= 1.6 * Machine().seconds(work)


def test_a_slow_first_step_does_not_cripple_the_rest():
    model = CostModel(BUDGET_S)
    model.observe(Work().plus(32, 0), 5.0)  # a model warming up
    steps = serve(model, Machine(), prompts=10)
    assert max(tokens for tokens, _ in steps[-20:]) > 60


def test_a_machine_that_becomes_slower_gets_smaller_steps():
    model = CostModel(BUDGET_S)
    serve(model, Machine())
    late = [seconds for _, seconds in serve(model, Machine(speed=0.6), decodes=1) if seconds > LIMIT_S]
    assert len(late) < 10


def test_long_decoding_does_not_wash_away_what_a_prompt_costs():
    model, machine = CostModel(BUDGET_S), Machine()
    serve(model, machine)
    work = Work().plus(100, 500)
    before = model.seconds(work)
    for step in range(2000):
        decode = Work().plus(1, 100 + step % 50)
        model.observe(decode, machine.seconds(decode))
    assert model.seconds(work) == pytest.approx(before, rel=0.15)


def test_what_takes_no_time_or_does_nothing_teaches_nothing():
    model = CostModel(BUDGET_S)
    before = model.seconds(Work().plus(8, 8))
    model.observe(Work(), 1.0)
    model.observe(Work().plus(8, 8), 0.0)
    assert model.seconds(Work().plus(8, 8)) == before


def test_an_empty_step_always_affords_something():
    model = CostModel(1e-6)
    assert StepBudget(model, 1e-6, 512).decode(1, 10_000)
    assert StepBudget(model, 1e-6, 512).chunk(1000, 10_000) == SURE_CHUNK_TOKENS
    assert StepBudget(model, 1e-6, 512).chunk(3, 10_000) == 3
    assert StepBudget(model, 1e-6, 4).chunk(1000, 0) == 4


def test_a_chunk_too_small_to_be_worth_it_is_left_out_unless_it_is_all_that_is_left():
    budget = StepBudget(CostModel(BUDGET_S), BUDGET_S, 20)
    budget.spend_chunk(14, 0)
    assert budget.chunk(100, 0) == 0
    assert budget.chunk(5, 0) == 5


def test_the_cap_on_prompt_tokens_holds_whatever_time_allows():
    model = CostModel(BUDGET_S)
    for tokens in (32, 64, 128, 256, 512):
        model.observe(Work().plus(tokens, 0), 0.001)
    budget = StepBudget(model, BUDGET_S, 100)
    assert budget.chunk(1000, 0) == 100
    budget.spend_chunk(60, 0)
    assert budget.chunk(1000, 0) == 40


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 8000), st.floats(1e-4, 10.0)), max_size=60))
def test_no_measurement_makes_a_cost_negative_or_work_free_of_order(samples):
    model = CostModel(BUDGET_S)
    for tokens, context, seconds in samples:
        model.observe(Work().plus(tokens, context), seconds)
    costs = [model.seconds(Work().plus(tokens, 100)) for tokens in (1, 10, 100, 500)]
    assert costs == sorted(costs)
    assert costs[0] >= 0


class MillisecondATokenMachine(CostModel):
    def most_seconds(self, work):
        return 1e-3 * work.tokens

    def trusts(self, work):
        return True


def test_a_part_is_a_share_of_what_is_left_and_ends_with_its_block():
    budget = StepBudget(MillisecondATokenMachine(1.0), 1.0, 10_000)
    budget.spend_chunk(200, 0)
    with budget.part(0.5):
        assert budget.chunk(1000, 0) == 400
    assert budget.chunk(1000, 0) == 800


def test_what_is_spare_fits_and_one_more_would_not():
    model = CostModel(BUDGET_S)
    serve(model, Machine())
    budget = StepBudget(model, BUDGET_S, 512)
    for _ in range(8):
        budget.spend_decode(1, 300)
    spare = budget.spare(1000)
    assert 0 < spare < 1000
    assert budget.spare(3) == 3
    assert model.most_seconds(budget.work.beside(spare)) <= BUDGET_S < model.most_seconds(budget.work.beside(spare + 1))


def test_what_is_computed_beside_has_the_context_of_the_others():
    work = Work().plus(1, 99).plus(1, 299)
    assert work.beside(4) == Work(2, 6, 3 * work.pairs, work.read)
    assert Work().beside(4) == Work(0, 4, 0.0, 0)
