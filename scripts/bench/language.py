#!/usr/bin/env python3
"""Programs in the language beside the same calls made one after another through a plain OpenAI client.

A tree of thought (depth 3, width 3) and a few-shot batch of 64, with short and with longer answers. The two sides take
turns on one server, with texts of the same lengths; each run begins with a line of its own, so that neither side finds
what the other has computed. What the plain calls share among themselves they find in the server's cache, too. Reuse is
the language's: the prompt tokens that the replies say were cached, against those that a cache finds which is never full
and never late. Ends with 1 if reuse or ratio is too low in any.

    .venv/bin/python scripts/bench/language.py [--rounds 5] [--only tree] [--options ""]
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
from openai import OpenAI

from sapwood import Function, GenerateRequest, Generation, NativeBackend, Score, State, function, gen
from scripts.bench.cache import unbounded
from scripts.bench.cache.author import Encode
from scripts.bench.cache.deployment import deployed
from scripts.bench.cache.tokens import encoder
from scripts.bench.cache.trace import Record
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import machine
from scripts.bench.measure.timing import in_turns, round_ratios

DEPTH, WIDTH, STEP_TOKENS = 3, 3, 24
BATCH, ANSWERS_TOKENS = 64, (4, 16)
PROBLEM = "How can a small town use less energy? Many have tried, and some of them have found a way. " * 8
STEP = "\nNext step:"
SHOTS = "".join(
    f"Review: film {i} was {'fine' if i % 2 else 'bad'}\nMood: {'glad' if i % 2 else 'sad'}\n" for i in range(30)
)
REVIEWS = [f"Review: film {i} was {'a joy' if i % 3 else 'a bore'}\nMood:" for i in range(30, 30 + BATCH)]
LEAST_REUSE, LEAST_RATIO = 0.98, 3.0
HEADER = ("program", "calls", "language, s", "one after another, s", "ratio", "tokens reused", "of the ideal")

Ask = Callable[[str, int], str]  # prompt, new tokens → text


@function
def tree(s: State, line: str) -> None:
    s += line + PROBLEM
    grow(s, DEPTH)


def grow(s: State, depth: int) -> None:
    if depth:
        forks = s.fork(WIDTH)
        forks += STEP + gen("step", max_tokens=STEP_TOKENS)
        for fork in forks:
            grow(fork, depth - 1)


@function
def few_shot(s: State, line: str, review: str, tokens: int) -> None:
    s += line + SHOTS + review + gen("mood", max_tokens=tokens)


def plain_tree(line: str, ask: Ask) -> None:
    def grow(text: str, depth: int) -> None:
        for _ in range(WIDTH if depth else 0):
            grow(text + STEP + ask(text + STEP, STEP_TOKENS), depth - 1)

    grow(line + PROBLEM, DEPTH)


def plain_few_shot(line: str, ask: Ask, tokens: int) -> None:
    for review in REVIEWS:
        ask(line + SHOTS + review, tokens)


@dataclass(frozen=True)
class Workload:
    name: str
    program: Function
    batch: Sequence[Mapping[str, Any]]  # its arguments, but for the line of the run
    plain: Callable[[str, Ask], None]


def few_shot_workload(tokens: int) -> Workload:
    batch = [{"review": review, "tokens": tokens} for review in REVIEWS]
    return Workload(f"few-shot batch, {tokens} tokens each", few_shot, batch, partial(plain_few_shot, tokens=tokens))


WORKLOADS = (Workload("tree of thought", tree, [{}], plain_tree), *map(few_shot_workload, ANSWERS_TOKENS))


@dataclass
class Recording:
    """A backend that keeps what was asked, in this order, and what was answered."""

    inner: NativeBackend
    calls: list[tuple[str, list[Generation]]] = field(default_factory=list)

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        answers: list[Generation] = []
        self.calls.append((str(request.prompt), answers))
        answers += await self.inner.generate(request)
        return answers

    def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        return self.inner.stream(request)

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        return await self.inner.score(request, choices, unconditional=unconditional)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True)
class Found:
    """Of a workload: the seconds of each round, and the tokens that the language's side reused of all it could."""

    calls: int  # of a run
    language_s: list[float]
    plain_s: list[float]
    reused_tokens: int
    ideal_tokens: int

    @property
    def reuse(self) -> float:
        return self.reused_tokens / self.ideal_tokens

    @property
    def ratio(self) -> Spread:
        ratios = Spread.of(round_ratios(self.plain_s, self.language_s))
        assert ratios is not None, "no round"
        return ratios

    @property
    def is_enough(self) -> bool:
        return self.reuse >= LEAST_REUSE and self.ratio.median >= LEAST_RATIO


def measure(workload: Workload, url: str, ask: Ask, encode: Encode, lines: Iterator[str], rounds: int) -> Found:
    backend = Recording(NativeBackend(url))

    def language() -> None:
        line = next(lines)
        batch = [{"line": line, **arguments} for arguments in workload.batch]
        for state in workload.program.run_batch(batch, backend=backend, temperature=1.0, ignore_eos=True):
            state.wait()

    spent = in_turns({"language": language, "plain": lambda: workload.plain(next(lines), ask)}, rounds)
    reused = sum(answer.cached_tokens for _, (answer,) in backend.calls)
    ideal = sum(unbounded.reused_tokens(records(backend.calls, encode)))
    return Found(len(backend.calls) // (rounds + 1), spent["language"], spent["plain"], reused, ideal)


def records(calls: Sequence[tuple[str, list[Generation]]], encode: Encode) -> Iterator[Record]:
    for place, (prompt, (answer,)) in enumerate(calls):
        prompt_ids = tuple(encode(prompt))
        assert len(prompt_ids) == answer.prompt_tokens, "the server's tokens are others"
        yield Record("", str(place), "", place, prompt_ids, answer.token_ids, answer.cached_tokens, 0.0, 0.0)


def ask_plainly(client: OpenAI, model: str, prompt: str, max_tokens: int) -> str:
    extra = {"ignore_eos": True}
    reply = client.completions.create(
        model=model, prompt=prompt, max_tokens=max_tokens, temperature=1.0, extra_body=extra
    )
    return reply.choices[0].text


def row(name: str, found: Found) -> list[str]:
    times = [spread_text(Spread.of(spent), ".2f") for spent in (found.language_s, found.plain_s)]
    tokens = f"{found.reused_tokens} of {found.ideal_tokens}"
    return [name, str(found.calls), *times, ratio_text(found.ratio), tokens, f"{found.reuse:.2%}"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="WORD", help="workloads with this in their names")
    parser.add_argument("--options", default="", help="of the server, as for `sapwood serve`")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n")
    lines = (f"Run {number}.\n" for number in itertools.count(100))
    with deployed(*shlex.split(arguments.options)) as server:
        model = httpx.get(f"{server.url}/v1/models", trust_env=False).json()["data"][0]["id"]
        ask = partial(ask_plainly, OpenAI(base_url=f"{server.url}/v1", api_key="none"), model)
        found = {
            each.name: measure(each, server.url, ask, encoder(), lines, arguments.rounds)
            for each in WORKLOADS
            if arguments.only in each.name
        }
    print(markdown(HEADER, [row(name, each) for name, each in found.items()]))
    sys.exit(0 if all(each.is_enough for each in found.values()) else 1)


if __name__ == "__main__":
    main()
