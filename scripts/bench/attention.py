#!/usr/bin/env python3
"""The attention backends' speed beside the machine's ceilings, measured in the same run: ms a layer, GB/s, GFLOP/s.

Three ways in turns, with keys and values of one type for all: with what is shared read once (tree), each sequence for
itself (per request), and gather + SDPA. The layers of the pool are passed one after another, so that keys and values
come from memory as they do in a step. Every backend in services/executor/attention is taken by its interface.

    .venv/bin/python scripts/bench/attention.py [--kv float32 float16] [--rounds 7] [--png docs/performance]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text
from scripts.bench.measure import ceilings, machine
from scripts.bench.measure.backends import GatherAttention, Make, backends
from scripts.bench.measure.cases import Case, chunk, distinct, flops, read_bytes, shared, sharing_chunks
from scripts.bench.measure.timing import in_turns, round_ratios
from services.executor.attention.base import AttentionBackend, Segment

CASES = {
    "16 sharing": shared(16, 2048, 64),
    "64 sharing": shared(64, 8000, 64),
    "16 distinct": distinct(16, 512),
    "64 distinct": distinct(64, 512),
    "1 long": distinct(1, 8000),
    "512 new": chunk(512, 0),
    "512 more": chunk(512, 2048),
    "50 new": chunk(50, 8000),
    "16 endings": sharing_chunks(16, 1500, 32),
}
TREE, EACH, GATHER = "tree", "per request", "gather + SDPA"


@dataclass(frozen=True)
class Heads:
    heads: int = 9
    kv_heads: int = 3
    head_dim: int = 64


@dataclass(frozen=True)
class Way:
    """One backend on one plan; a call passes through all layers of the pool."""

    name: str
    segments: tuple[Segment, ...]
    call: Callable[[], object]


@dataclass(frozen=True)
class Pool:
    queries: Tensor  # (rows, heads, head_dim)
    keys: Tensor  # (layers, slots, kv_heads, head_dim)
    values: Tensor

    @classmethod
    def for_case(cls, case: Case, shape: Heads, dtype: torch.dtype, layers: int) -> Pool:
        size = (layers, case.slots, shape.kv_heads, shape.head_dim)
        queries = torch.randn(case.rows, shape.heads, shape.head_dim)
        return cls(queries, torch.randn(size).to(dtype), torch.randn(size).to(dtype))

    def through(self, backend: AttentionBackend[Any], plan: object) -> None:
        for keys, values in zip(self.keys, self.values, strict=True):
            backend.run(plan, self.queries, keys, values)


def ways(case: Case, pool: Pool, found: dict[str, Make]) -> list[Way]:
    plans = {TREE: case.segments, EACH: case.unshared} if case.shares else {EACH: case.unshared}
    made = [
        Way(f"{name}, {kind}", segments, _call(pool, make(), segments))
        for name, make in found.items()
        for kind, segments in plans.items()
    ]
    is_decode = all(segment.query_tokens == 1 for segment in case.unshared)
    if is_decode:
        made.append(Way(GATHER, case.unshared, _call(pool, GatherAttention(), case.unshared)))
    return made


def _call(pool: Pool, backend: AttentionBackend[Any], segments: tuple[Segment, ...]) -> Callable[[], object]:
    return partial(pool.through, backend, backend.plan(segments, pool.queries.device))


def rows(
    case: Case, kv: str, found: dict[str, Make], top: ceilings.Ceilings, arguments: argparse.Namespace
) -> list[list[str]]:
    """A table's row for each way."""
    shape, dtype = Heads(), getattr(torch, kv)
    pool = Pool.for_case(case, shape, dtype, arguments.layers)
    tried = ways(case, pool, found)
    with torch.inference_mode():
        times = in_turns({way.name: way.call for way in tried}, arguments.rounds)
    best = {kind: _fastest(times, kind) for kind in (TREE, EACH, GATHER)}
    token_bytes = 2 * shape.kv_heads * shape.head_dim * dtype.itemsize
    return [_row(case, kv, way, times, best, top, (token_bytes, shape), arguments.layers) for way in tried]


def _fastest(times: dict[str, list[float]], kind: str) -> list[float] | None:
    """The rounds of the best backend of this kind."""
    of_kind = [spent for name, spent in times.items() if name.endswith(kind)]
    return min(of_kind, key=statistics.median) if of_kind else None


def _row(
    case: Case,
    kv: str,
    way: Way,
    times: dict[str, list[float]],
    best: dict[str, list[float] | None],
    top: ceilings.Ceilings,
    sizes: tuple[int, Heads],
    layers: int,
) -> list[str]:
    token_bytes, shape = sizes
    layer_s = statistics.median(times[way.name]) / layers
    num_bytes = read_bytes(way.segments, token_bytes=token_bytes)
    num_flops = flops(way.segments, heads=shape.heads, head_dim=shape.head_dim)
    bound_s = top.bound_s(read_bytes=num_bytes, flops=num_flops)
    cells = [case.name, kv, way.name, f"{layer_s * 1e3:.3f}", f"{num_bytes / layer_s / 1e9:.1f}"]
    cells += [f"{num_flops / layer_s / 1e9:.0f}", f"{bound_s / layer_s:.0%}"]
    return cells + [_against(best[kind], times[way.name], kind, way.name) for kind in (EACH, GATHER)]


def _against(slower: list[float] | None, spent: list[float], kind: str, name: str) -> str:
    if slower is None or name.endswith(kind):
        return ""
    return ratio_text(Spread.of(round_ratios(slower, spent)))


HEADER = ("case", "KV", "way", "ms a layer", "GB/s", "GFLOP/s", "of its bound", "best per request ÷ it", "gather ÷ it")


def draw(folder: Path, table: Sequence[Sequence[str]]) -> None:
    from scripts.bench.measure import chart

    cases = list(dict.fromkeys((row[0], row[1]) for row in table))
    names = list(dict.fromkeys(row[2] for row in table))
    found = {(row[0], row[1], row[2]): float(row[3]) for row in table}
    decoding = [case for case in cases if (*case, GATHER) in found]
    series = {name: [found.get((*case, name), 0.0) for case in decoding] for name in names}
    chart.bars(
        folder / "attention.png", "Attention, one layer", "ms", [f"{a}\n{b}" for a, b in decoding], series, log=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--only", nargs="+", metavar="BACKEND", help="of the backends")
    parser.add_argument("--kv", nargs="+", default=["float32"], choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6, help="of the pool; enough that no cache holds them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--png", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(machine.in_words(machine.describe()))
    top = ceilings.measure(arguments.threads)
    print(top.in_words(), end="\n\n")
    found = backends(Heads(), arguments.threads)
    found = {name: make for name, make in found.items() if not arguments.only or name in arguments.only}
    table: list[list[str]] = []
    for name in arguments.cases:
        for kv in arguments.kv:
            table += rows(CASES[name], kv, found, top, arguments)
    print(markdown(HEADER, table))
    print(f"\n{ceilings.measure(arguments.threads).in_words()} (again, at the end)")
    if arguments.png:
        draw(arguments.png, table)


if __name__ == "__main__":
    main()
