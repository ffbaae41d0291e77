"""What a client does: it sends some prompts at once, waits for all their outputs, and goes on from there.

A program is a generator, so that it depends on neither HTTP nor a clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

from .trace import Record

FIRST_REHEARSED_ID = 1_000_000  # above every real token id


@dataclass(frozen=True, slots=True)
class Prompt:
    token_ids: list[int]
    new_tokens: int  # exactly so many come out


Program = Generator[list[Prompt], list[list[int]], None]


def one_request(prompt: list[int], new_tokens: int) -> Program:
    yield [Prompt(prompt, new_tokens)]


def rehearse(programs: Iterable[Program]) -> list[Record]:
    """A trace for its sizes: programs one after another, with made-up outputs that have nothing in common."""
    made_up = itertools.count(FIRST_REHEARSED_ID)
    records: list[Record] = []
    for program in programs:
        for prompt, output in _play(program, made_up):
            number = len(records)
            ids = tuple(prompt.token_ids), tuple(output)
            records.append(
                Record("rehearsal", str(number), "", float(number), *ids, cached_tokens=0, ttft_s=0, total_s=0)
            )
    return records


def _play(program: Program, made_up: Iterator[int]) -> Iterator[tuple[Prompt, list[int]]]:
    prompts = next(program, [])
    while prompts:
        outputs = [list(itertools.islice(made_up, prompt.new_tokens)) for prompt in prompts]
        yield from zip(prompts, outputs, strict=True)
        prompts = advance(program, outputs)


def advance(program: Program, outputs: list[list[int]]) -> list[Prompt]:
    """The program's next prompts; none once it has ended."""
    try:
        return program.send(outputs)
    except StopIteration:
        return []
