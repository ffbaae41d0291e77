"""Greedy outputs of a runner in this process: of requests alone, at once, and behind a prefix that they share.

Knows plans and outcomes. Does not know what is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.executor.step import StepRunner
from shared import wire

GREEDY = wire.Sampling(seed=0, temperature=0.0, ignore_eos=True, logprobs=True)
SLICE_TOKENS = 2048
SPARE_TOKENS = 64  # for drafts in each step, if there are to be any

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Output:
    prompt: Tokens
    scores: tuple[wire.TokenLogprob, ...]  # of the tokens that follow

    @property
    def token_ids(self) -> Tokens:
        return tuple(score.token_id for score in self.scores)

    @property
    def logprobs(self) -> tuple[float, ...]:
        return tuple(score.logprob for score in self.scores)


@dataclass(frozen=True)
class Scene:
    name: str
    at_once: int
    shares: bool = False  # all prompts have the prefix before them
    drafts: bool = False
    is_warm: bool = False  # the cache still holds what the scene before has left


SCENES = (
    Scene("alone", 1),
    Scene("alone, with drafts", 1, drafts=True),
    Scene("16 at once", 16),
    Scene("16 sharing a prefix, cold, with drafts", 16, shares=True, drafts=True),
    Scene("16 sharing a prefix, warm", 16, shares=True, is_warm=True),
)


def play(
    scene: Scene, runner: StepRunner, prompts: Sequence[Tokens], prefix: Tokens, new_tokens: int
) -> Iterator[Output]:
    if not scene.is_warm:
        runner.flush()
    whole = [(prefix if scene.shares else ()) + prompt for prompt in prompts]
    for first in range(0, len(whole), scene.at_once):
        group = whole[first : first + scene.at_once]
        yield from generate(runner, group, new_tokens, SPARE_TOKENS if scene.drafts else 0)


def generate(runner: StepRunner, prompts: Sequence[Tokens], new_tokens: int, spare_tokens: int) -> list[Output]:
    """All at once, the first a step ahead: so the others find what it shares with them."""
    admits = tuple(wire.Admit(lane, f"r{lane}", prompt, GREEDY, new_tokens) for lane, prompt in enumerate(prompts))
    found: dict[int, list[wire.TokenLogprob]] = {admit.lane: [] for admit in admits}
    running = set(found)
    plan = wire.StepPlan(0, admits, (wire.Slice(0, SLICE_TOKENS),))
    while running:
        for outcome in runner.run(plan).outcomes:
            if outcome.error is not None or outcome.declined:
                raise RuntimeError(f"the executor refused: {outcome}")
            found[outcome.lane] += outcome.logprobs
            if outcome.finish_reason is not None:
                running.discard(outcome.lane)
        slices = tuple(wire.Slice(lane, SLICE_TOKENS) for lane in sorted(running))
        plan = wire.StepPlan(plan.seq + 1, slices=slices, spare_tokens=spare_tokens)
    runner.run(wire.StepPlan(plan.seq, release=tuple(found)))
    return [Output(prompt, tuple(scores)) for prompt, scores in zip(prompts, found.values(), strict=True)]
