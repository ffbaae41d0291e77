#!/usr/bin/env python3
"""What the engine's features are worth to clients: our server against itself without them, through HTTP.

chats        the prefix cache, against --disable-radix-cache: hit rate and throughput of shared chats
concurrency  the same: time to first token against concurrency, behind one system prompt
long         the same: a prompt of 8,000 tokens that was seen before and 50 new ones, against a new one
chain        the same: four steps over a new text, end to end
json         constraints, against the prompt alone and asking again until the JSON obeys its schema
structured   constraints, against free text: tokens a second
tree         in process: what the cache's tree takes beside the keys and values; without the cache there is none

How many of 1,000 structured outputs are right: `structured_output.py`.

    .venv/bin/python scripts/bench/figures.py [--only chats json] [--rounds 2] [--png docs/performance]
"""

from __future__ import annotations

import argparse
import random
import shlex
from collections.abc import Callable
from pathlib import Path

from scripts.bench.cache.author import Desk
from scripts.bench.cache.deployment import deployed
from scripts.bench.cache.tokens import encoder
from scripts.bench.gains import chain, chats, concurrency, free_text, json_tasks, long_prompt, tree_memory
from scripts.bench.gains.sides import CACHED, PLAIN, Sides
from scripts.bench.measure import machine

POOL_TOKENS = 49_152
TREE = "tree"
SERVED: dict[str, Callable[[Sides], None]] = {
    "chats": chats.show,
    "concurrency": concurrency.show,
    "long": long_prompt.show,
    "chain": chain.show,
    "json": json_tasks.show,
    "structured": free_text.show,
}


def parse() -> argparse.Namespace:
    figures = (*SERVED, TREE)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=figures, default=list(figures))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--options", default="", help="of both servers, as for `sapwood serve`")
    parser.add_argument("--model-path", default="bundled")
    parser.add_argument("--png", type=Path, metavar="FOLDER")
    return parser.parse_args()


def serve(arguments: argparse.Namespace, shows: list[Callable[[Sides], None]]) -> None:
    common = ["--model-path", arguments.model_path, "--max-total-tokens", str(POOL_TOKENS)]
    common += shlex.split(arguments.options)
    with deployed(*common) as cached, deployed(*common, "--disable-radix-cache") as plain:
        desk = Desk(encoder(arguments.model_path), arguments.seed)
        sides = Sides({CACHED: cached.url, PLAIN: plain.url}, desk, arguments.rounds, arguments.png)
        for show in shows:
            show(sides)


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n", flush=True)
    shows = [show for name, show in SERVED.items() if name in arguments.only]
    if shows:
        serve(arguments, shows)
    if TREE in arguments.only:
        tree_memory.show(arguments.model_path, arguments.rounds)


if __name__ == "__main__":
    main()
