"""The three workloads: which prompts are sent, in which phases, how many at a time.

    single  one after another: 4 prompts of 128 tokens, 128 new ones each
    batch   16 at once, nothing in common: 128 tokens, 64 new ones
    prefix  16 at once that share 1,500 tokens and differ in the last 50, 32 new ones; three phases over one prefix:
                cold      it is new to the server
                warm      exactly the same prompts again
                warm_new  the same prefix, other endings

Knows no server. A seed always gives the same prompts, so a server that has seen a seed is not cold for it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from .words import words


@dataclass(frozen=True)
class Workload:
    name: str
    concurrency: int
    requests: int  # of each phase
    prompt_tokens: int  # about; prefix and ending together
    new_tokens: int
    ending_tokens: int | None = None  # None: the prompts have nothing in common
    phases: tuple[str, ...] = ()

    def prompts(self, seed: int) -> dict[str, list[str]]:
        """The prompts of each phase, in the order of the phases."""
        chance = random.Random(f"{self.name} {seed}")
        if self.ending_tokens is None:
            return {self.name: [words(chance, self.prompt_tokens) for _ in range(self.requests)]}
        prefix = words(chance, self.prompt_tokens - self.ending_tokens)
        first, other = (
            [f"{prefix} {words(chance, self.ending_tokens)}" for _ in range(self.requests)] for _ in range(2)
        )
        every = {"cold": first, "warm": first, "warm_new": other}
        return {phase: every[phase] for phase in self.phases}

    def shaped(self, **sizes: int | None) -> Workload:
        """With other sizes, where they are given."""
        return replace(self, **{name: size for name, size in sizes.items() if size is not None})

    def only(self, phases: tuple[str, ...]) -> Workload:
        return replace(self, phases=tuple(phase for phase in self.phases if phase in phases)) if self.phases else self


WORKLOADS = {
    "single": Workload("single", concurrency=1, requests=4, prompt_tokens=128, new_tokens=128),
    "batch": Workload("batch", concurrency=16, requests=16, prompt_tokens=128, new_tokens=64),
    "prefix": Workload(
        "prefix",
        concurrency=16,
        requests=16,
        prompt_tokens=1550,
        new_tokens=32,
        ending_tokens=50,
        phases=("cold", "warm", "warm_new"),
    ),
}
