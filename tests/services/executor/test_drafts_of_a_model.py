"""Drafts with a real forward pass: the tokens are those without, greedy and seeded, alone and together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.executor.assembly import assemble
from services.executor.drafting import Drafting
from services.executor.model.prepare import prepare
from services.executor.step import StepRunner
from shared import wire
from shared.config import Config, ExecutorConfig, ModelConfig
from tests.support.tiny_model import VOCAB_SIZE, make_tiny_model

NEW_TOKENS = 60
PROMPTS = [[(7 * i * (lane + 1) + lane) % VOCAB_SIZE for i in range(5 + 9 * lane)] * 2 for lane in range(4)]
GREEDY = wire.Sampling(seed=0, temperature=0.0, ignore_eos=True, logprobs=True)
TILTED = {3: 9.0, 5: 8.5}  # so that outputs repeat themselves
SEEDED = wire.Sampling(
    seed=7, temperature=0.7, top_p=0.9, frequency_penalty=0.01, logit_bias=TILTED, ignore_eos=True, logprobs=True
)


class Eager(Drafting):
    """Drafts whatever there is to draft."""

    def pays(self, acceptance: float, rows: int) -> int:
        return self.most_tokens


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    folder = tmp_path_factory.mktemp("model")
    config = ModelConfig(path=str(make_tiny_model(folder / "tiny", seed=5)), cache_dir=str(folder / "cache"))
    prepare(config)
    return config


def generate(runner: StepRunner, prompts: Sequence[Sequence[int]], sampling: wire.Sampling) -> list[wire.TokenLogprob]:
    """What each request is answered, one behind the other."""
    admits = tuple(wire.Admit(n, f"r{n}", tuple(prompt), sampling, NEW_TOKENS) for n, prompt in enumerate(prompts))
    found: dict[int, list[wire.TokenLogprob]] = {admit.lane: [] for admit in admits}
    runner.run(wire.StepPlan(0, admits))
    running = set(found)
    for seq in range(1, 1000):
        result = runner.run(wire.StepPlan(seq, slices=tuple(wire.Slice(n, 50) for n in running), spare_tokens=100))
        for outcome in result.outcomes:
            assert len(outcome.logprobs) == len(outcome.new_token_ids)
            found[outcome.lane] += outcome.logprobs
        running -= {outcome.lane for outcome in result.outcomes if outcome.finish_reason is not None}
        if not running:
            break
    runner.run(wire.StepPlan(1000, release=tuple(found)))
    runner.check_integrity()
    return [logprob for lane in found.values() for logprob in lane]


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_model_says_the_same_with_drafts(model: ModelConfig, sampling: wire.Sampling, page_size: int) -> None:
    settings = ExecutorConfig(threads=1, max_total_tokens=2000, page_size=page_size)
    plain, drafting = (assemble(Config(model=model, executor=settings)).runner for _ in range(2))
    plain._drafting, drafting._drafting = None, Eager()
    for prompts in ([PROMPTS[0]], PROMPTS):
        expected, found = generate(plain, prompts, sampling), generate(drafting, prompts, sampling)
        assert len(found) == NEW_TOKENS * len(prompts)
        assert [score.token_id for score in found] == [score.token_id for score in expected]
        assert [score.logprob for score in found] == pytest.approx([score.logprob for score in expected], abs=1e-4)
    assert plain.counters().drafted_tokens == 0
    assert drafting.counters().accepted_tokens > 0
