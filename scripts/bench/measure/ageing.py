"""Lets an executor's pool grow old: requests come and go with all of their slots, lanes and nodes, but not computed.

Knows plans and room, in the scheduler's manner: requests begin while the pool is not occupied, a step has so many
prompt tokens, and who came last gives way where there is no room. Knows nothing of which slot is whose.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scripts.bench.measure.inside import Inside
from scripts.bench.measure.mixture import Asked, Mixture
from shared import wire

OCCUPANCY = 0.9  # of the pool, by requests that run
MOST_RUNNING = 256
PROMPT_TOKENS = 2048  # in a step, of all prompts


@dataclass
class _Running:
    asked: Asked
    computed: int
    output: list[int] = field(default_factory=list)

    @property
    def prompt_left(self) -> int:
        return max(len(self.asked.prompt) - self.computed, 0)


class Ageing:
    def __init__(self, inside: Inside, mixture: Mixture) -> None:
        self._inside = inside
        self._mixture = mixture
        self._running: dict[int, _Running] = {}  # by lane, as they came
        self._over: list[int] = []  # lanes to be released
        capacity = inside.runner.capacity()
        self._capacity_tokens = capacity.free_tokens + capacity.evictable_tokens + capacity.pinned_tokens
        self.finished = self.gave_way = 0
        self._occupied: list[float] = []

    def in_words(self) -> str:
        counters = self._inside.runner.counters()
        hits = counters.hit_tokens / (counters.hit_tokens + counters.miss_tokens)
        return (
            f"after {self.finished:,} requests, {self.gave_way} of which gave way: {hits:.0%} of the prompts' tokens "
            f"found in the cache, {counters.evicted_tokens:,} tokens evicted; those that ran held "
            f"{statistics.mean(self._occupied):.0%} of the pool, and the cache {counters.nodes:,} nodes"
        )

    def run(self, requests: int) -> None:
        """Until so many more have finished or been cancelled."""
        goal = self.finished + requests
        with self._inside.passing_over():
            while self.finished < goal:
                self._step()

    def make_room(self, tokens: int) -> None:
        """End who came first, until so many tokens more would make the occupancy."""
        while self._running and self._pinned() + tokens > OCCUPANCY * self._capacity_tokens:
            self._end(next(iter(self._running)))
            self._inside.run([], release=self._released())

    def _step(self) -> None:
        admits = list(self._admits())
        result = self._inside.run(self._slices(), admits, self._released())
        capacity = result.capacity
        self._occupied.append(capacity.pinned_tokens / self._capacity_tokens)
        if any(outcome.declined for outcome in result.outcomes):
            self.gave_way += 1
            self._end(next(reversed(self._running)))
        for outcome in result.outcomes:
            self._note(outcome)

    def _admits(self) -> Iterator[wire.Admit]:
        room = OCCUPANCY * self._capacity_tokens - self._pinned() - sum(each.prompt_left for each in self._all())
        while room > 0 and len(self._running) < MOST_RUNNING:
            asked = self._mixture.next()
            found = self._inside.runner.cache.match("", np.array(asked.prompt))
            room -= len(asked.prompt) - found
            admit = self._inside.new_admit(asked.prompt, asked.new_tokens)
            self._running[admit.lane] = _Running(asked, found)
            yield admit

    def _slices(self) -> Iterator[wire.Slice]:
        left = PROMPT_TOKENS
        for lane, each in self._running.items():
            if not each.prompt_left:
                yield wire.Slice(lane, 1)
            elif left:
                count = min(left, each.prompt_left)
                left -= count
                yield wire.Slice(lane, count)

    def _note(self, outcome: wire.Outcome) -> None:
        each = self._running.get(outcome.lane)
        if outcome.error is not None:
            raise RuntimeError(f"the executor refused: {outcome}")
        if each is None or outcome.declined:
            return
        each.computed = outcome.computed_tokens
        each.output += outcome.new_token_ids
        if len(each.output) >= each.asked.output_tokens and not each.prompt_left:
            self._end(outcome.lane)

    def _end(self, lane: int) -> None:
        each = self._running.pop(lane)
        self._mixture.answered(each.asked, each.output)
        self._over.append(lane)
        self.finished += 1

    def _released(self) -> tuple[int, ...]:
        released, self._over = tuple(self._over), []
        return released

    def _pinned(self) -> int:
        return self._inside.runner.capacity().pinned_tokens

    def _all(self) -> Iterator[_Running]:
        return iter(self._running.values())
