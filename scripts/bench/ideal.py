#!/usr/bin/env python3
"""What ideal caches would have reused of a recorded run, beside what was reused.

Of each run in the trace: the unbounded cache that is never late, and with a capacity, the offline optimum (Belady on
the tree) and least recently used, both one request at a time in the order of submission; and the optimum in the order
in which the server served them, which may be a better one. Imports nothing of the server.

    .venv/bin/python scripts/bench/ideal.py trace.jsonl [--capacity 4000]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from cache import bounded, trace, unbounded
from cache.summary import share
from cache.trace import Record, as_served, by_submission
from cache.tree import Tree


def report(records: list[Record], capacity_tokens: int | None) -> None:
    prompt_tokens = sum(len(record.prompt_ids) for record in records)
    figures = {"reused": sum(record.cached_tokens for record in records)}
    figures["unbounded"] = sum(unbounded.reused_tokens(records))
    if capacity_tokens is not None:
        figures["belady"] = sum(bounded.reused_tokens(records, capacity_tokens))
        figures["as served"] = sum(bounded.reused_tokens(as_served(records), capacity_tokens))
        figures["lru"] = sum(bounded.reused_tokens(records, capacity_tokens, bounded.oldest_first))
    print(f"{records[0].workload}: {len(records)} requests, {prompt_tokens} prompt tokens, ", end="")
    print(f"working set {Tree(records).tokens} tokens")
    for name, tokens in figures.items():
        print(f"  {name:10}{tokens:9}  hit rate {share(tokens, prompt_tokens):7.2%}", end="")
        print(f"  reused/{name} {share(figures['reused'], tokens):.2%}" if name != "reused" else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--capacity", type=int, help="tokens that the cache has room for")
    arguments = parser.parse_args()
    runs = defaultdict(list)
    for record in trace.read(arguments.trace):
        runs[record.workload, record.namespace].append(record)
    for records in runs.values():
        report(by_submission(records), arguments.capacity)


if __name__ == "__main__":
    main()
