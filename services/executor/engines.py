"""Which forward pass computes the model: the compiled one where the machine and the model allow it, else torch's.

Knows what each of them needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from services.executor.attention import cuda
from services.executor.attention.base import AttentionBackend, Segment, SlotRun
from services.executor.attention.reference import ReferenceAttention
from services.executor.compute import ForwardModel
from services.executor.kv_pool import make_pool
from services.executor.model.config import ModelShape, read_shape
from services.executor.model.forward import Batch
from services.executor.model.load import load_model
from shared import logging
from shared.config import ConfigError, ExecutorConfig

WARM_UP_TOKENS = 32
COMPILING_AFTER_S = 3.0  # what was compiled before is read in sooner


class Engine(ForwardModel, Protocol):
    @property
    def weight_bytes(self) -> int: ...

    @property
    def kv_dtype(self) -> torch.dtype:
        """Of the KV pool, if nothing else is asked for."""


def load_engine(
    settings: ExecutorConfig,
    folder: Path,
    device: torch.device,
    threads: int,
    on_compiling: Callable[[], None] = lambda: None,
) -> Engine:
    """Raises ConfigError if the model cannot be read, or not be computed as the settings ask for.

    Args:
        on_compiling: called, in another thread, if the kernels have to be compiled.
    """
    shape = read_shape(folder)
    obstacle = _obstacle(settings, shape, device)
    if obstacle is None:
        from services.executor.model.fused import load_fused

        form = "native" if settings.chosen_weights == "auto" else settings.chosen_weights
        model = load_fused(folder, form=form, threads=threads)
        with _told_if_slow(on_compiling):
            _warm_up(model, shape.max_position)
        return model
    for key, value in (("attention", "cpu"), ("weights", "native")):
        if getattr(settings, key) == value:
            raise ConfigError(f"executor.{key}: {value!r} is not possible, since {obstacle}")
    logging.get().info("torch_engine", reason=obstacle)
    return load_model(
        folder,
        attention=_attention(settings, shape, device),
        device=device,
        dtype=getattr(torch, settings.chosen_dtype),
        weights="float16" if settings.weights == "float16" else "float32",
    )


@contextmanager
def _told_if_slow(on_compiling: Callable[[], None]) -> Iterator[None]:
    def tell() -> None:
        logging.get().info("compiling", reason="the first start here; it takes up to a minute, once")
        on_compiling()

    timer = threading.Timer(COMPILING_AFTER_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # what it tells is not told once the executor is ready


def _warm_up(engine: Engine, max_position: int) -> None:
    """Have the kernels compiled, or what was compiled before read in, before anybody waits for a step."""
    start = time.perf_counter()
    count = min(WARM_UP_TOKENS, max_position)
    places, whole = torch.arange(count), (Segment(0, count, (SlotRun(0, count),), causal=True),)
    pool = make_pool(engine.shape, count, device=engine.device, dtype=engine.kv_dtype)
    engine.forward(Batch(torch.zeros_like(places), places, places, whole, places[-1:]), pool.keys, pool.values)
    logging.get().info("compiled_engine", kernels_s=round(time.perf_counter() - start, 3))


def _obstacle(settings: ExecutorConfig, shape: ModelShape, device: torch.device) -> str | None:
    """Why the compiled pass cannot be used; None if it can."""
    if device.type != "cpu":
        return f"executor.device is {settings.device}"
    if settings.attention not in ("auto", "cpu"):
        return f"executor.attention is {settings.attention}"
    if settings.chosen_dtype != "float32":
        return f"executor.dtype is {settings.dtype}"
    try:
        from services.executor.kernels.vector import processor_lacks
        from services.executor.model.fused import computes
    except (ImportError, OSError, RuntimeError) as error:  # missing, or nowhere to keep what it compiles
        return f"numba cannot be used ({error})"
    if lacking := processor_lacks():
        return f"the processor has no {', '.join(lacking)}"
    return None if computes(shape) else "the kernels need sizes that are multiples of 16"


def _attention(settings: ExecutorConfig, shape: ModelShape, device: torch.device) -> AttentionBackend[Any]:
    if settings.attention == "reference":
        return ReferenceAttention()
    if device.type == "cuda" and cuda.is_available():
        from services.executor.attention.cuda.backend import CudaAttention

        return CudaAttention(shape)
    if settings.attention == "cuda":
        reason = "there is no triton" if device.type == "cuda" else f"executor.device is {settings.device}"
        raise ConfigError(f"executor.attention: 'cuda' is not possible, since {reason}")
    return ReferenceAttention()
