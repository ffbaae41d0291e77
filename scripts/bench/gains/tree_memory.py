"""What the tree takes beside the keys and values that it finds: an executor's own tree, and the scheduler's copy.

In process: the pool grows old under mixed requests (`measure.ageing`), with all of its nodes and slots. Without the
cache there is no tree, so all of it is the feature's. The list of free slots, which there is in any case, is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, spread_text
from scripts.bench.measure.ageing import Ageing
from scripts.bench.measure.footprint import held_bytes
from scripts.bench.measure.inside import Inside
from scripts.bench.measure.mixture import Mixture
from scripts.bench.measure.work import kv_bytes
from services.scheduler.prefix_index import PrefixIndex

POOL_TOKENS = 65_536  # what a server takes by default where there is no accelerator
REQUESTS = 2000  # between two looks
HEADER = ("cached tokens", "nodes", "tree, kB", "copy, kB", "keys and values, MB", "tree, % of these", "with the copy")


@dataclass(frozen=True)
class Sizes:
    tokens: int
    nodes: int
    tree_bytes: int
    copy_bytes: int
    kv_bytes: int


def look(inside: Inside) -> Sizes:
    cache = inside.runner.cache
    copy = PrefixIndex(cache.page_size)
    copy.apply(cache.snapshot())
    stored = kv_bytes(inside.shape, cache.cached_tokens, itemsize=inside.kv_itemsize)
    return Sizes(cache.cached_tokens, cache.nodes, held_bytes(cache), held_bytes(copy), stored)


def show(model_path: str, rounds: int) -> None:
    inside = Inside({"max_total_tokens": POOL_TOKENS}, model_path)
    ageing = Ageing(inside, Mixture(1))
    found = []
    for _ in range(rounds):
        ageing.run(REQUESTS)
        found.append(look(inside))
    columns = (
        ([each.tokens for each in found], ".0f"),
        ([each.nodes for each in found], ".0f"),
        ([each.tree_bytes / 1e3 for each in found], ".0f"),
        ([each.copy_bytes / 1e3 for each in found], ".0f"),
        ([each.kv_bytes / 1e6 for each in found], ".0f"),
        ([100 * each.tree_bytes / each.kv_bytes for each in found], ".2f"),
        ([100 * (each.tree_bytes + each.copy_bytes) / each.kv_bytes for each in found], ".2f"),
    )
    print(f"**The tree beside its keys and values ({inside.kv_dtype}), a pool of {POOL_TOKENS} tokens**\n")
    print(f"{markdown(HEADER, [[spread_text(Spread.of(values), form) for values, form in columns]])}\n")
    print(f"{ageing.in_words()}\n", flush=True)
