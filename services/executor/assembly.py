"""From the configuration to a runner that can step: device, weights, pool, tree.

Knows how the parts fit together. Called once, in the thread that will run the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.compiler import Compiler
from services.executor.constraint.engine import Grammar, TokenizerFailed, load_tokenizer
from services.executor.constraint.sandbox import Sandbox, worker_command
from services.executor.constraint.stage import ConstraintStage
from services.executor.constraint.states import StateStore
from services.executor.drafting import Drafting
from services.executor.engines import load_engine
from services.executor.kv_pool import bytes_per_token, decide_capacity, make_pool
from services.executor.machine import available_bytes
from services.executor.populate import populate
from services.executor.quota import QUOTA
from services.executor.radix_cache import NoCache, RadixCache
from services.executor.reuse import Reuse
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from shared import logging, wire
from shared.config import Config, ConfigError, ConstraintsConfig, ExecutorConfig
from shared.cores import usable_cores
from shared.model_card import load_card, prepared_folder

FORCED_TOKENS = 32  # the most for which one request is spared room and time in a step
POPULATE_S = 0.5  # the most that a start waits for the pool's memory; the rest comes beside the first steps


@dataclass(frozen=True, slots=True)
class Assembled:
    runner: StepRunner
    info: wire.ExecutorInfo
    compiler: Compiler | None = None  # for the event loop; None: the model cannot be constrained


def assemble(config: Config, on_compiling: Callable[[], None] = lambda: None) -> Assembled:
    """Raises ConfigError if the device, the model or the memory is not there. `on_compiling`: see `load_engine`."""
    settings = config.executor
    threads = settings.threads or min(usable_cores(), torch.get_num_threads())  # torch counts no siblings
    torch.set_num_threads(threads)
    device = _device(settings)
    card = load_card(config.model)
    folder = prepared_folder(config.model)
    model = load_engine(settings, folder, device, threads, on_compiling)
    dtype = model.kv_dtype if settings.chosen_kv_dtype == "auto" else getattr(torch, settings.chosen_kv_dtype)
    capacity = decide_capacity(
        settings,
        token_bytes=bytes_per_token(model.shape, dtype),
        weight_bytes=model.weight_bytes,
        available_bytes=available_bytes(device) // (settings.replicas if device.type == "cpu" else 1),
        max_model_len=card.max_model_len,
        on_cpu=device.type == "cpu",
    )
    pool = make_pool(model.shape, capacity, device=device, dtype=dtype)
    populating = populate(pool)
    slots = SlotAllocator(capacity, settings.page_size)
    stage, compiler = _constrain(config.constraints, folder, model.shape.vocab_size, card.eos_token_ids)
    drafting = None if settings.speculation == "off" else Drafting()
    runner = StepRunner(
        model,
        pool,
        slots,
        _cache(settings, slots),
        eos_token_ids=card.eos_token_ids,
        max_model_len=card.max_model_len,
        reuse=_reuse(settings),
        drafting=drafting,
        constraints=stage,
    )
    info = wire.ExecutorInfo(
        card.model_id,
        capacity,
        settings.page_size,
        settings.max_batch,
        card.max_model_len,
        caches=not settings.disable_radix_cache,
        draft_tokens=0 if drafting is None else drafting.most_tokens,
        forced_tokens=FORCED_TOKENS if stage is not None and stage.jumps else 0,
    )
    populating.join(POPULATE_S)
    return Assembled(runner, info, compiler)


def _constrain(
    caps: ConstraintsConfig, folder: Path, vocab_size: int, eos_token_ids: tuple[int, ...]
) -> tuple[ConstraintStage, Compiler] | tuple[None, None]:
    """The step thread's part and the event loop's, which share the grammars; none with a tokenizer of another kind."""
    try:
        tokenizer = load_tokenizer(folder, vocab_size, eos_token_ids)
    except TokenizerFailed as error:
        logging.get().warning("no_constraints", reason=str(error))
        return None, None
    half_bytes = caps.cache_bytes // 2
    grammars = GrammarCache(half_bytes)
    states = StateStore(tokenizer, budget_bytes=half_bytes, eos_token_ids=frozenset(eos_token_ids))
    stage = ConstraintStage(grammars, states, jumps=caps.jump_forward)
    return stage, Compiler(grammars, Sandbox(worker_command(folder), caps), partial(Grammar, tokenizer=tokenizer))


def _cache(settings: ExecutorConfig, slots: SlotAllocator) -> RadixCache:
    if settings.disable_radix_cache:
        return NoCache(slots)
    quota = QUOTA if settings.cache_quota is None else settings.cache_quota
    return RadixCache(slots, policy=settings.eviction_policy or "lru", quota=quota)


def _reuse(settings: ExecutorConfig) -> Reuse | None:
    is_adaptive = settings.adaptive_cache is not False and not settings.disable_radix_cache
    return Reuse() if is_adaptive else None


def _device(settings: ExecutorConfig) -> torch.device:
    try:
        device = torch.device(settings.device)
    except RuntimeError as error:
        raise ConfigError(f"executor.device: {error}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"executor.device: there is no CUDA device for {settings.device!r}")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"executor.device: {settings.device!r} is not supported; use cpu or cuda")
    return device
