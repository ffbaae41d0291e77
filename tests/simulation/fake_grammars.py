"""What an executor has compiled, without a compiler: it takes a while, and one whose source is REFUSED never is."""

import random

from shared import wire
from shared.constraints import key_of

REFUSED = "refused"
REFUSAL = wire.Error("there is no such grammar", "invalid_constraint", param="constraint")


class FakeGrammars:
    """Args:
    forgetfulness: how often an answer is lost, and how often, when a request is admitted, all that was compiled.
    """

    def __init__(self, rng: random.Random, forgetfulness: float = 0.0):
        self.rng, self.forgetfulness = rng, forgetfulness
        self.ready: set[str] = set()
        self.asked: list[wire.Constraint] = []

    def has(self, constraint: wire.Constraint) -> bool:
        return key_of(constraint) in self.ready

    def compile(self) -> wire.Compiled | None:
        """One that was asked for is ready, or refused; None if the work is lost."""
        constraint = self.asked.pop(self.rng.randrange(len(self.asked)))
        if self.rng.random() < self.forgetfulness:
            return None
        if constraint.source == REFUSED:
            return wire.Compiled(key_of(constraint), REFUSAL)
        self.ready.add(key_of(constraint))
        return wire.Compiled(key_of(constraint))

    def forget(self) -> None:
        """Perhaps."""
        if self.rng.random() < self.forgetfulness:
            self.ready.clear()
