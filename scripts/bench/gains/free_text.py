"""Structured output against free text: tokens a second of sixteen at once, from the same server and the same prompts.

The free side writes as many tokens as the structured one did in a round that is not counted, so both have about as
much to do. Nothing is forced in the text; most of JSON's marks and names are.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scripts.bench.cache.runner import connect
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.constraints import ARTICLE, FREE, ORDER, TOWNS, Subject
from scripts.bench.gains.sides import Sides, new_namespace
from scripts.bench.measure.timing import round_ratios
from scripts.bench.structured.kinds import MIN_P, Json

STRUCTURED, FREE_TEXT = "structured", "free"
AT_ONCE = 16
TEXT_TOKENS, MOST_TOKENS = 64, 400
TEXT = "letters, spaces and marks"


@dataclass(frozen=True)
class Writing:
    name: str
    prompt: Callable[[str], str]  # of a town
    fields: Json  # of the structured side: the constraint

    @classmethod
    def json_of(cls, subject: Subject) -> Writing:
        fields = {"json_schema": subject.schema, "max_new_tokens": MOST_TOKENS}
        return cls(f"JSON: {subject.what.lower()}", subject.prompt, fields)


WRITINGS = (
    Writing(
        TEXT,
        "A letter from {}.\nDear friend, ".format,
        {"regex": FREE[TEXT].source, "max_new_tokens": TEXT_TOKENS, "ignore_eos": True},
    ),
    Writing.json_of(ORDER),
    Writing.json_of(ARTICLE),
)


@dataclass(frozen=True)
class Written:
    lengths: list[int]  # in tokens
    took_s: float

    @property
    def tokens_per_s(self) -> float:
        return sum(self.lengths) / self.took_s


def bodies(writing: Writing, number: int, fields: Sequence[Json]) -> list[Json]:
    namespace = new_namespace()
    return [
        {
            "text": writing.prompt(f"{TOWNS[n % len(TOWNS)]} {n}"),
            "sampling_params": {"temperature": 1, "min_p": MIN_P, "sampling_seed": number * AT_ONCE + n, **own},
            "extra_key": namespace,
        }
        for n, own in enumerate(fields)
    ]


async def write(url: str, requests: Sequence[Json]) -> Written:
    async with connect(url) as client:
        start_s = time.perf_counter()
        replies = await asyncio.gather(*(client.post("/generate", json=body) for body in requests))
        took_s = time.perf_counter() - start_s
    return Written([reply.raise_for_status().json()["meta_info"]["completion_tokens"] for reply in replies], took_s)


def measure(sides: Sides, writing: Writing) -> dict[str, list[float]]:
    """Tokens a second, by side."""
    structured = [writing.fields] * AT_ONCE
    usual = asyncio.run(write(sides.url, bodies(writing, 0, structured))).lengths
    fields = {STRUCTURED: structured, FREE_TEXT: [{"max_new_tokens": each, "ignore_eos": True} for each in usual]}
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(1, sides.rounds + 1):
        for side in sorted(fields, reverse=number % 2 == 1):
            written = asyncio.run(write(sides.url, bodies(writing, number, fields[side])))
            found[side].append(written.tokens_per_s)
    return found


def show(sides: Sides) -> None:
    rows = []
    for writing in WRITINGS:
        found = measure(sides, writing)
        rates = [spread_text(Spread.of(found[side]), ".0f") for side in (STRUCTURED, FREE_TEXT)]
        ratio = ratio_text(Spread.of(round_ratios(found[STRUCTURED], found[FREE_TEXT])))
        rows.append([writing.name, *rates, ratio])
    print(f"**Structured output and free text, {AT_ONCE} at once, tok/s**\n")
    print(f"{markdown(('output', STRUCTURED, FREE_TEXT, 'structured ÷ free'), rows)}\n", flush=True)
