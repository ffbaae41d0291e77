"""How much fits into a step: seconds turned into tokens, by a cost model fitted to the steps that were measured.

Knows work in numbers and how long it took. Does not know requests or executors.

    seconds = step + a * slices + b * tokens + c * pairs + d * read

`pairs` are (token, earlier token) pairs, what attention computes; `read` are the tokens whose KV is read. The model
keeps a few measurements of each size of step, and of these the middle one counts: so a hiccup says nothing, and hours
of decoding do not wash away what a prompt costs. It is pessimistic: what it has not seen it takes to be slow, no step
gets more than twice as large as any that was measured, and a margin covers nine full steps of ten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SURE_CHUNK_TOKENS = 16  # of a prompt, whatever the time, if the step has nothing else: less is all overhead
LEAST_CHUNK_TOKENS = 8  # beside others
FIRST_STEP_TOKENS = 32  # before anything is measured
FIRST_STEP_PAIRS = 100_000

SAMPLES_OF_A_SIZE = 5
PRIOR_COEFFICIENTS = (5e-3, 5e-4, 4e-3, 2e-6, 1e-6)  # a slow machine
PRIOR_WEIGHT = 1e-4
SWEEPS = 20
MARGIN_UP, MARGIN_DOWN, MARGIN_MOST = 1.1, 0.99, 3.0  # at rest where 1 step in 10 takes longer
FULL_STEP = 0.8  # of the budget: the steps that the margin is for

Features = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes."""

    slices: int = 0
    tokens: int = 0
    pairs: float = 0.0
    read: int = 0

    def plus(self, tokens: int, context: int) -> Work:
        """With a slice of `tokens` behind `context` tokens."""
        pairs = tokens * (context + (tokens + 1) / 2)
        return Work(self.slices + 1, self.tokens + tokens, self.pairs + pairs, self.read + context + tokens)

    def __add__(self, other: Work) -> Work:
        return Work(
            self.slices + other.slices, self.tokens + other.tokens, self.pairs + other.pairs, self.read + other.read
        )

    def beside(self, tokens: int) -> Work:
        """With `tokens` more in its slices, behind as much context as the others have."""
        pairs = tokens * self.pairs / self.tokens if self.tokens else 0.0
        return Work(self.slices, self.tokens + tokens, self.pairs + pairs, self.read)

    @property
    def features(self) -> Features:
        return (1.0, self.slices, self.tokens, self.pairs, self.read)

    @property
    def size(self) -> tuple[int, int]:
        """Steps of one size are alike within a factor of two."""
        return self.tokens.bit_length(), int(self.pairs / self.tokens).bit_length()


@dataclass(frozen=True, slots=True)
class Sample:
    work: Work
    seconds: float

    @property
    def pace(self) -> float:
        return self.seconds / self.work.tokens


class CostModel:
    """Args:
    budget_s: what a step may take; the margin is about steps that fill it.
    """

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self._samples: dict[tuple[int, int], deque[Sample]] = {}
        self._coefficients: Features = PRIOR_COEFFICIENTS
        self._margin = 1.0
        self._most_tokens = FIRST_STEP_TOKENS // 2
        self._most_pairs = FIRST_STEP_PAIRS / 2

    def seconds(self, work: Work) -> float:
        """How long such a step takes."""
        return sum(c * x for c, x in zip(self._coefficients, work.features, strict=True))

    def most_seconds(self, work: Work) -> float:
        """How long such a step takes at most, nearly always."""
        return self._margin * self.seconds(work)

    def trusts(self, work: Work) -> bool:
        """Whether anything like it has been measured."""
        return work.tokens <= 2 * self._most_tokens and work.pairs <= 2 * self._most_pairs

    def observe(self, work: Work, seconds: float) -> None:
        """A step has been measured."""
        if not work.tokens or seconds <= 0:
            return
        self._move_margin(self.seconds(work), seconds)
        self._most_tokens = max(self._most_tokens, work.tokens)
        self._most_pairs = max(self._most_pairs, work.pairs)
        self._samples.setdefault(work.size, deque(maxlen=SAMPLES_OF_A_SIZE)).append(Sample(work, seconds))
        self._coefficients = _fit([_middle(samples) for samples in self._samples.values()], self._coefficients)

    def _move_margin(self, fitted_s: float, seconds: float) -> None:
        if self._margin * fitted_s < FULL_STEP * self._budget_s:
            return  # small steps vary more, and it does not matter
        factor = MARGIN_UP if seconds > self._margin * fitted_s else MARGIN_DOWN
        self._margin = min(max(self._margin * factor, 1.0), MARGIN_MOST)


def _middle(samples: deque[Sample]) -> Sample:
    return sorted(samples, key=lambda sample: sample.pace)[len(samples) // 2]


def _fit(samples: list[Sample], start: Features) -> Features:
    """Least squares of the relative errors, no coefficient below zero, drawn a little towards the prior."""
    count = len(start)
    normal = [[0.0] * count for _ in range(count)]
    target = [0.0] * count
    for j, prior in enumerate(PRIOR_COEFFICIENTS):
        normal[j][j] = PRIOR_WEIGHT / prior**2
        target[j] = PRIOR_WEIGHT / prior
    for sample in samples:
        relative = [x / sample.seconds for x in sample.work.features]
        for j, x in enumerate(relative):
            target[j] += x
            row = normal[j]
            for k, y in enumerate(relative):
                row[k] += x * y
    return _solve(normal, target, start)


def _solve(normal: list[list[float]], target: list[float], start: Features) -> Features:
    """Coordinate descent."""
    found = list(start)
    for _ in range(SWEEPS):
        for j, row in enumerate(normal):
            others = sum(a * x for a, x in zip(row, found, strict=True)) - row[j] * found[j]
            found[j] = max(0.0, (target[j] - others) / row[j])
    return tuple(found)


class StepBudget:
    """What is left of one step while it is being planned.

    Args:
        budget_s: what the step may take.
        max_prompt_tokens: the most prompt tokens in it, whatever the time allows.
    """

    def __init__(self, cost: CostModel, budget_s: float, max_prompt_tokens: int) -> None:
        self._cost = cost
        self._budget_s = budget_s
        self._limit_s = budget_s
        self._prompt_tokens = max_prompt_tokens
        self._least_chunk = min(LEAST_CHUNK_TOKENS, max_prompt_tokens)
        self.work = Work()

    @contextmanager
    def part(self, share: float) -> Iterator[None]:
        """Within the block, prompts may take no more than this share of what is left."""
        spent_s = self._cost.most_seconds(self.work) if self.work.slices else 0.0
        self._limit_s = spent_s + share * max(self._budget_s - spent_s, 0.0)
        try:
            yield
        finally:
            self._limit_s = self._budget_s

    def decode(self, tokens: int, context: int) -> int:
        """How many of a decode's next `tokens` fit.

        The first decode is always affordable; and the margin is for prompts and for what is beyond the first token,
        which can do with less.
        """
        if self.work.slices and self._cost.seconds(self.work.plus(1, context)) > self._budget_s:
            return 0
        return max(self._fitting(tokens, context), 1) if tokens > 1 else 1

    def chunk(self, tokens: int, context: int) -> int:
        """How many of a prompt's next `tokens` fit; 0 rather than too few to be worth it."""
        limit = min(tokens, self._prompt_tokens)
        fitting = self._fitting(limit, context)
        if not self.work.slices:
            return max(fitting, min(SURE_CHUNK_TOKENS, limit))
        return fitting if fitting >= min(tokens, self._least_chunk) else 0

    def spare(self, tokens: int) -> int:
        """How many of these would fit besides, in the slices that there are."""
        return bisect_left(range(1, tokens + 1), True, key=lambda n: not self._affords(self.work.beside(n)))

    def spend_decode(self, tokens: int, context: int) -> None:
        self.work = self.work.plus(tokens, context)

    def spend_chunk(self, tokens: int, context: int) -> None:
        self.work = self.work.plus(tokens, context)
        self._prompt_tokens -= tokens

    def _fitting(self, tokens: int, context: int) -> int:
        return bisect_left(range(1, tokens + 1), True, key=lambda n: not self._affords(self.work.plus(n, context)))

    def _affords(self, work: Work) -> bool:
        return self._cost.trusts(work) and self._cost.most_seconds(work) <= self._limit_s
