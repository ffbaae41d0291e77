"""The attention backends that there are on this machine, by name, and the baseline that they are held against."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import services.executor.attention
from services.executor.attention.base import AttentionBackend, Segment, contexts

SUFFIX = "Attention"


class HeadShape(Protocol):
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


def backends(shape: HeadShape) -> dict[str, AttentionBackend[Any]]:
    """Whatever class in the attention package is called SomethingAttention and can be made from a model's shape."""
    found: dict[str, AttentionBackend[Any]] = {}
    for kind in _classes():
        name = kind.__name__.removesuffix(SUFFIX).lower()
        if name == "cuda" and not torch.cuda.is_available():
            continue
        wanted = [each for each in inspect.signature(kind).parameters.values() if each.default is each.empty]
        found[name] = kind(shape) if wanted else kind()
    return found


def _classes() -> Iterator[type[Any]]:
    package = services.executor.attention
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # what it is made of is not installed here
            continue
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == info.name and kind.__name__.endswith(SUFFIX):
                yield kind


class GatherAttention:
    """The plain way to read a paged pool: copy each sequence's keys and values side by side, then one SDPA call.

    Decoding only, all contexts of one length.
    """

    def plan(self, segments: Sequence[Segment], device: torch.device) -> Tensor:
        """(sequences, tokens) int64: the slots of each context."""
        rows = [
            torch.cat([torch.arange(run.start, run.start + run.length, device=device) for run in context.runs])
            for context in contexts(segments)
        ]
        return torch.stack(rows)

    def run(self, plan: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        gathered = [part[plan].to(queries.dtype).transpose(1, 2) for part in (keys, values)]
        output = scaled_dot_product_attention(queries[:, :, None], *gathered, enable_gqa=True)
        return output[:, :, 0]
