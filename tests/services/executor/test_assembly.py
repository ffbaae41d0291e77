from __future__ import annotations

import re
import shutil
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
import torch
from structlog.testing import capture_logs
from tokenizers import Tokenizer

from services.executor import engines
from services.executor.admission import UNCONSTRAINED
from services.executor.assembly import FORCED_TOKENS, Assembled, assemble
from services.executor.engines import load_engine
from services.executor.model.forward import Model
from services.executor.model.fused import FusedModel
from services.executor.model.prepare import prepare
from services.executor.nodes import Use
from shared import wire
from shared.config import Config, ConfigError, ConstraintsConfig, ExecutorConfig, ModelConfig
from shared.model_card import prepared_folder
from tests.support.tiny_model import VOCAB_SIZE, make_tiny_model

PROMPTS = [[(11 * i * (lane + 1) + lane) % VOCAB_SIZE for i in range(3 + 17 * lane)] for lane in range(6)]
NEW_TOKENS = 12
CPU = torch.device("cpu")
FOREVER = wire.Sampling(seed=0, temperature=0.0, ignore_eos=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    folder = tmp_path_factory.mktemp("model")
    config = ModelConfig(path=str(make_tiny_model(folder / "tiny", seed=5)), cache_dir=str(folder / "cache"))
    prepare(config)
    return config


@dataclass
class Lanes:
    assembled: Assembled
    seq: int = 0

    def generate(self, prompts: dict[int, Sequence[int]], chunk: int, yield_at: int | None = None) -> list[list[int]]:
        """All together; the first lane gives way once and comes again, when so many steps have run."""
        output: dict[int, list[int]] = {lane: [] for lane in prompts}
        running = set(prompts)
        plan = wire.StepPlan(0, tuple(self._admit(lane, prompt) for lane, prompt in prompts.items()))
        for step in self._steps():
            slices = tuple(wire.Slice(lane, chunk) for lane in sorted(running))
            if step == yield_at:
                first = min(prompts)
                plan = wire.StepPlan(0, (self._admit(first, prompts[first], output[first]),), release=(first,))
            result = self.assembled.runner.run(wire.StepPlan(self.seq, plan.admits, slices, release=plan.release))
            self.assembled.runner.check_integrity()
            for outcome in result.outcomes:
                output[outcome.lane] += outcome.new_token_ids
                if outcome.finish_reason is not None:
                    running.discard(outcome.lane)
            plan = wire.StepPlan(0)
            if not running:
                break
        self.assembled.runner.run(wire.StepPlan(self.seq + 1, release=tuple(prompts)))
        return list(output.values())

    def _steps(self) -> Iterator[int]:
        for step in range(10_000):
            self.seq += 1
            yield step

    def _admit(self, lane: int, prompt: Sequence[int], resume: Sequence[int] = ()) -> wire.Admit:
        return wire.Admit(lane, f"request-{lane}", tuple(prompt), FOREVER, NEW_TOKENS, tuple(resume))


@pytest.fixture(scope="module")
def expected(model: ModelConfig) -> list[list[int]]:
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = AutoModelForCausalLM.from_pretrained(Path(model.path), dtype=torch.float32).eval()
    return [continue_greedily(oracle, prompt) for prompt in PROMPTS]


def continue_greedily(oracle: torch.nn.Module, prompt: list[int]) -> list[int]:
    found = list(prompt)
    for _ in range(NEW_TOKENS):
        with torch.inference_mode():
            found.append(int(oracle(torch.tensor([found])).logits[0, -1].argmax()))
    return found[len(prompt) :]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "settings",
    [
        ExecutorConfig(threads=1),
        ExecutorConfig(threads=1, page_size=16),
        ExecutorConfig(threads=1, disable_radix_cache=True),
        ExecutorConfig(threads=2, kv_dtype="float32", weights="float32"),
        ExecutorConfig(threads=1, attention="reference"),
        ExecutorConfig(threads=1, attention="reference", weights="float16", kv_dtype="float16", speculation="off"),
    ],
    ids=["tokens", "pages", "no cache", "all in float32", "torch", "torch in halves"],
)
def test_greedy_tokens_equal_those_of_transformers(
    model: ModelConfig, expected: list[list[int]], settings: ExecutorConfig
) -> None:
    lanes = Lanes(assemble(Config(model=model, executor=settings)))
    together = dict(enumerate(PROMPTS))
    assert [lanes.generate({0: prompt}, 10_000)[0] for prompt in PROMPTS] == expected  # alone
    assert lanes.generate(together, 10_000) == expected  # together, warm
    lanes.assembled.runner.flush()
    assert lanes.generate(together, 5, yield_at=4) == expected  # cold, in chunks, one gives way


def test_the_compiled_pass_computes_where_it_can(model: ModelConfig, tmp_path: Path) -> None:
    assert isinstance(load_engine(ExecutorConfig(), Path(model.path), CPU, threads=1), FusedModel)
    odd = make_tiny_model(tmp_path / "odd", "llama", intermediate_size=100)
    assert isinstance(load_engine(ExecutorConfig(), odd, CPU, threads=1), Model)
    with pytest.raises(ConfigError, match="multiples of 16"):
        load_engine(ExecutorConfig(attention="cpu"), odd, CPU, threads=1)


def test_a_first_start_that_compiles_is_told_and_no_other(model: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(engines, "_warm_up", lambda *_: told.wait(30))
    monkeypatch.setattr(engines, "COMPILING_AFTER_S", 0.0)
    with capture_logs() as lines:
        load_engine(ExecutorConfig(), Path(model.path), CPU, 1, told.set)
    assert [line["event"] for line in lines] == ["compiling"]
    assert told.is_set()
    monkeypatch.setattr(engines, "_warm_up", lambda *_: None)
    monkeypatch.setattr(engines, "COMPILING_AFTER_S", 60.0)
    load_engine(ExecutorConfig(), Path(model.path), CPU, 1, told.clear)
    waiting = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(thread.finished.is_set() for thread in waiting)


def test_the_pool_has_its_memory_before_the_first_request(model: ModelConfig) -> None:
    runner = assemble(Config(model=model, executor=ExecutorConfig(threads=1, max_total_tokens=65_536))).runner
    for thread in threading.enumerate():
        if thread.name == "populate":
            thread.join()
    before, keys = psutil.Process().memory_info().rss, runner._pool.keys
    keys.fill_(0)
    assert psutil.Process().memory_info().rss - before < keys.nbytes / 10


def test_an_executor_says_what_it_offers(model: ModelConfig) -> None:
    settings = ExecutorConfig(max_total_tokens=1000, page_size=16, max_batch=5)
    info = assemble(Config(model=model, executor=settings)).info
    assert (info.capacity_tokens, info.page_size, info.max_batch, info.max_model_len) == (992, 16, 5, 1024)
    assert info.caches


@pytest.mark.parametrize(("jumps", "forced_tokens"), [(True, FORCED_TOKENS), (False, 0)])
def test_forced_tokens_can_be_left_to_be_computed_one_by_one(
    model: ModelConfig, jumps: bool, forced_tokens: int
) -> None:
    config = Config(model=model, executor=ExecutorConfig(max_total_tokens=100))
    assembled = assemble(msgspec.structs.replace(config, constraints=ConstraintsConfig(jump_forward=jumps)))
    assert assembled.info.forced_tokens == forced_tokens
    assert assembled.compiler is not None


async def test_a_constraint_goes_from_its_source_to_the_output(model: ModelConfig) -> None:
    assembled = assemble(Config(model=model, executor=ExecutorConfig(threads=1, max_total_tokens=1000)))
    assert assembled.compiler is not None
    constraint = wire.Constraint("regex", "[0-9]{3}-[0-9]{4}")
    admit = wire.Admit(0, "r", tuple(PROMPTS[1]), msgspec.structs.replace(FOREVER, ignore_eos=False), 50)
    admit = msgspec.structs.replace(admit, constraint=constraint)
    (early,) = assembled.runner.run(wire.StepPlan(1, admits=(admit,))).outcomes
    assert early.waiting == "grammar"
    assert await assembled.compiler.compile(constraint) is None
    await assembled.compiler.close()
    assert re.fullmatch("[0-9]{3}-[0-9]{4}", decoded(assembled, admit, Path(prepared_folder(model))))


def decoded(assembled: Assembled, admit: wire.Admit, folder: Path) -> str:
    """What one request says before it stops."""
    output: list[int] = []
    plan = wire.StepPlan(2, admits=(admit,), slices=(wire.Slice(0, 100),), release=(0,))
    while True:
        (outcome,) = assembled.runner.run(plan).outcomes
        output += outcome.new_token_ids
        if outcome.finish_reason is not None:
            assert outcome.finish_reason == "stop", outcome
            return str(Tokenizer.from_file(str(folder / "tokenizer.json")).decode(output))
        plan = wire.StepPlan(plan.seq + 1, slices=(wire.Slice(0, 100),))


def test_a_tokenizer_of_another_kind_leaves_a_model_without_constraints(model: ModelConfig, tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    shutil.copytree(prepared_folder(model), folder)
    (folder / "tokenizer.json").write_text("{}")
    elsewhere = msgspec.structs.replace(model, prepared=str(folder))
    assembled = assemble(Config(model=elsewhere, executor=ExecutorConfig(threads=1, max_total_tokens=1000)))
    assert (assembled.compiler, assembled.info.forced_tokens) == (None, 0)
    assert len(Lanes(assembled).generate({0: PROMPTS[1]}, 10_000)[0]) == NEW_TOKENS
    constrained = wire.Admit(9, "r", (1, 2), FOREVER, 3, constraint=wire.Constraint("regex", "a+"))
    (outcome,) = assembled.runner.run(wire.StepPlan(1000, admits=(constrained,))).outcomes
    assert outcome.error == UNCONSTRAINED


def test_a_switched_off_cache_is_said_to_be_off(model: ModelConfig) -> None:
    settings = ExecutorConfig(threads=1, max_total_tokens=1000, disable_radix_cache=True)
    lanes = Lanes(assemble(Config(model=model, executor=settings)))
    assert not lanes.assembled.info.caches
    lanes.generate({0: PROMPTS[2]}, 10_000)
    assert lanes.assembled.runner.cache.snapshot() == lanes.assembled.runner.cache.take_events() == ()


@pytest.mark.parametrize(("quota", "protected"), [(None, {"a": 20, "b": 250}), (0.1, {"a": 20, "b": 50}), (0.0, {})])
def test_the_cache_keeps_to_its_settings(model: ModelConfig, quota: float | None, protected: dict[str, int]) -> None:
    settings = ExecutorConfig(threads=1, max_total_tokens=1000, cache_quota=quota, eviction_policy="priority")
    cache = assemble(Config(model=model, executor=settings)).runner.cache
    for namespace, count, priority in (("a", 20, 1), ("b", 400, 0), ("b/c", 400, 2)):
        use = Use(priority)
        slots = cache.allocate(count)
        assert slots is not None
        held = cache.extend(cache.pin(namespace, np.arange(count), use).node, np.arange(count), slots, use)
        cache.unpin(held.node)
    assert cache.protected_tokens() == protected
    cache.allocate(500)
    left = {node.namespace: len(node.tokens) for _, node in cache.walk()}
    assert left.pop("b") <= 100, "of its tenant's the lowest priority; the other tenant's was the oldest"
    assert left == {"b/c": 400}


@pytest.mark.parametrize(("adaptive", "cheap"), [(None, 1), (True, 1), (False, 0)])
def test_the_cheap_mode_can_be_switched_off(model: ModelConfig, adaptive: bool | None, cheap: int) -> None:
    settings = ExecutorConfig(threads=1, max_total_tokens=16_000, adaptive_cache=adaptive)
    lanes = Lanes(assemble(Config(model=model, executor=settings)))
    for first in range(17):
        lanes.generate({0: [first, *(i % VOCAB_SIZE for i in range(600))]}, 10_000)
    assert lanes.assembled.runner.counters().cheap_namespaces == cheap


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (ExecutorConfig(device="abacus"), "executor.device"),
        (ExecutorConfig(device="meta"), "executor.device"),
        (ExecutorConfig(max_total_tokens=10**12), "executor.max_total_tokens"),
        (ExecutorConfig(attention="cuda"), "executor.attention: 'cuda' is not possible, since executor.device is cpu"),
        (
            ExecutorConfig(attention="cpu", dtype="bfloat16"),
            "executor.attention: 'cpu' is not possible, since executor.dtype",
        ),
        (ExecutorConfig(attention="reference", weights="native"), "executor.weights: 'native' is not possible"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_key(model: ModelConfig, settings: ExecutorConfig, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        assemble(Config(model=model, executor=settings))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_device_is_refused(model: ModelConfig) -> None:
    with pytest.raises(ConfigError, match="no CUDA device"):
        assemble(Config(model=model, executor=ExecutorConfig(device="cuda")))


def test_a_model_that_was_not_prepared_is_refused(model: ModelConfig, tmp_path: Path) -> None:
    elsewhere = ModelConfig(path=model.path, cache_dir=str(tmp_path))
    with pytest.raises(ConfigError, match="no prepared model folder"):
        assemble(Config(model=elsewhere))
