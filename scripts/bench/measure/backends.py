"""The attention backends that there are on this machine, by name, and the baseline that they are held against."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import services.executor.attention
from services.executor.attention.base import AttentionBackend, HeadShape, Segment, contexts

SUFFIX = "Attention"


Make = Callable[[], AttentionBackend[Any]]


def backends(shape: HeadShape, threads: int) -> dict[str, Make]:
    """Whatever class in the attention package is called SomethingAttention and asks for nothing but what is known here.

    Each plan wants a backend of its own: one may use its memory again for the next plan.
    """
    heads = {name: getattr(shape, name) for name in ("heads", "kv_heads", "head_dim")}
    known = {"shape": shape, **heads, "team": _team(threads)}
    found: dict[str, Make] = {}
    for kind in _classes():
        name = kind.__name__.removesuffix(SUFFIX).lower()
        wanted = [each.name for each in inspect.signature(kind).parameters.values() if each.default is each.empty]
        if all(known.get(each) for each in wanted) and (name != "cuda" or torch.cuda.is_available()):
            found[name] = partial(kind, **{each: known[each] for each in wanted})
    return found


def _team(threads: int) -> object | None:
    """The threads of compiled kernels; None where there are none."""
    try:
        from services.executor.kernels.team import Team
    except ImportError:
        return None
    return Team(threads)


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
