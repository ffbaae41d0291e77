"""The bundled model's greedy tokens and log-probabilities against transformers in float32, prompt for prompt.

In every way that a request can be computed: alone, with drafts, at once with others, behind a prefix that is read once
for all of them, from a cold and a warm cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tokenizers import Tokenizer

from scripts.bench.exactness import PREFIX_TEXT
from scripts.bench.measure.outputs import SCENES, Scene, play
from scripts.bench.measure.teacher import Teacher
from services.executor.assembly import assemble
from services.executor.drafting import Drafting
from services.executor.step import StepRunner
from shared.config import Config, ExecutorConfig
from tests.support.bundled import bundled_folder
from tests.support.oracle import oracle_model
from tests.support.prompts import PROMPTS

pytestmark = pytest.mark.oracle

MOST_TIES = 0.02  # of the positions
MOST = {"float32": 1e-3, "default": 0.05}  # by mode: gap of a tie, and error of a log-probability
SETTINGS = {
    "float32": ExecutorConfig(weights="float32", kv_dtype="float32", max_total_tokens=20_000),
    "default": ExecutorConfig(max_total_tokens=20_000),
}


class Eager(Drafting):
    """Drafts whatever there is to draft, however long a step takes."""

    def pays(self, acceptance: float, rows: int) -> int:
        return self.most_tokens


@dataclass(frozen=True)
class Texts:
    prefix: tuple[int, ...]
    prompts: tuple[tuple[int, ...], ...]
    new_tokens: int = 64

    def sample(self) -> Texts:
        return Texts(self.prefix[:160], self.prompts[::10], new_tokens=32)


@pytest.fixture(scope="module")
def texts() -> Texts:
    tokenizer = Tokenizer.from_file(str(bundled_folder() / "tokenizer.json"))
    prefix, *prompts = (tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in (PREFIX_TEXT, *PROMPTS))
    return Texts(prefix, tuple(prompts))


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher(oracle_model())


@pytest.fixture(scope="module", params=list(MOST))
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runner(mode: str) -> StepRunner:
    bundled_folder()
    runner = assemble(Config(executor=SETTINGS[mode])).runner
    runner._drafting = Eager()
    return runner


def check(scene: Scene, runner: StepRunner, texts: Texts, teacher: Teacher, mode: str) -> None:
    found = teacher.compare(play(scene, runner, texts.prompts, texts.prefix, texts.new_tokens))
    print(f"{mode}, {scene.name}: {found}")
    assert found.positions == texts.new_tokens * len(texts.prompts)
    assert found.holds(tie=MOST[mode], error=MOST[mode], part=MOST_TIES), found
    runner.check_integrity()


def test_a_sample(runner: StepRunner, texts: Texts, teacher: Teacher, mode: str) -> None:
    some = texts.sample()
    for scene in SCENES:
        check(scene, runner, some, teacher, mode)
    counters = runner.counters()
    assert counters.accepted_tokens > 0
    assert counters.hit_tokens >= (len(some.prompts) - 1) * len(some.prefix)  # the prefix was shared


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_all(scene: Scene, runner: StepRunner, texts: Texts, teacher: Teacher, mode: str) -> None:
    check(scene, runner, texts, teacher, mode)
