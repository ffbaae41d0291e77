"""More than can be served, for a while: who starts when, and what the executor is given to do meanwhile."""

import random

from shared import wire
from tests.services.scheduler.hub import EXECUTOR, GATEWAY, Hub, submit

LANES, QUEUED = 4, 8
STEPS, STEP_S, ARRIVALS = 150, 0.05, 3  # in each step: ten times what it ends
WORDS, PROMPT_TOKENS = 3, 14  # so that some of any prompt is in the cache, by chance


class Flood:
    def __init__(self):
        self.hub = Hub(max_running_requests=LANES, max_queued_requests=QUEUED, max_wait_s=1000.0)
        self.hub.join_all(capacity_tokens=2000)
        self.chance = random.Random(1)
        self.came: dict[str, int] = {}  # those that are accepted: how many had started by then
        self.started: list[str] = []
        self.slices: list[int] = []  # of each plan
        self.refused = 0

    def arrive(self):
        number = len(self.came) + self.refused
        prompt = tuple(self.chance.randrange(WORDS) for _ in range(PROMPT_TOKENS))
        self.hub.hear("tokenizer", submit(f"r{number}", prompt=prompt, max_new_tokens=40))
        self.note_plans()
        if self.hub.take(GATEWAY, wire.Rejected):
            self.refused += 1
        else:
            self.came[f"r{number}"] = len(self.started)

    def note_plans(self):
        for plan in self.hub.take(EXECUTOR, wire.StepPlan):
            self.started += [admit.request_id for admit in plan.admits]
            self.slices.append(len(plan.slices))

    def run(self):
        for _ in range(STEPS):
            for _ in range(ARRIVALS):
                self.arrive()
            self.hub.step()
            self.note_plans()
            self.hub.tick(STEP_S)
        return self


def test_under_a_flood_those_accepted_start_in_order_and_no_lane_is_idle():
    flood = Flood().run()
    assert flood.refused > 5 * len(flood.came) > 5 * LANES
    assert flood.started == list(flood.came)[: len(flood.started)]
    before = [position - flood.came[name] for position, name in enumerate(flood.started)]
    assert max(before) <= QUEUED
    assert sum(flood.slices[LANES:]) > 0.95 * LANES * len(flood.slices[LANES:])
