"""Whether a grammar can be walked at a bearable cost: masks are where what compiled well explodes.

Knows matchers and masks. Does not know sources, or what becomes of the verdict.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint.engine import DeadEnd, Grammar, check

WALK_TOKENS = 32
RANDOM_WALKS = 3
SLOW_S = 0.01  # of CPU time for a mask or a token; ordinary masks take 20 to 200 microseconds
SLOW_MEAN_S = 0.001  # for one in the mean of them all,
FEW = 64  # or of so many, where there are fewer
SAMPLES = 8  # tokens among which the longest is looked for

Choose: TypeAlias = Callable[[bytes], int]  # from a mask that allows something


class TooSlow(Exception):
    """Tokens would take so long that everybody's stream shows it."""


@dataclass(slots=True)
class _Meter:
    """What the engine has taken."""

    calls: int = 0
    spent_s: float = 0.0

    def note(self, took_s: float) -> None:
        if took_s > SLOW_S:
            raise TooSlow(f"a token of it takes over {SLOW_S * 1000:g} ms")
        self.calls += 1
        self.spent_s += took_s

    def judge(self) -> None:
        if self.spent_s > SLOW_MEAN_S * max(self.calls, FEW):
            raise TooSlow(f"its tokens take over {SLOW_MEAN_S * 1000:g} ms each")


def walk_about(grammar: Grammar, tokenizer: LLTokenizer) -> None:
    """Take some ways through the grammar, the same each time, with all masks on them.

    Raises:
        DeadEnd: no text satisfies it.
        GrammarFailed: it is over one of the engine's limits.
        TooSlow: a mask takes too long, or all of them do.
    """
    meter = _Meter()
    _mask(grammar.start(), meter)
    for choose in _ways(tokenizer):
        with contextlib.suppress(DeadEnd):  # behind what was taken; others need not go there
            _walk(grammar.start(), choose, tokenizer.eos_tokens, meter)
        meter.judge()


def _walk(matcher: LLMatcher, choose: Choose, ends: list[int], meter: _Meter) -> None:
    for _ in range(WALK_TOKENS):
        mask = _without(_mask(matcher, meter), ends)
        if not any(mask):
            return
        start_s = time.thread_time()
        matcher.consume_token(choose(mask))
        check(matcher)
        meter.note(time.thread_time() - start_s)


def _mask(matcher: LLMatcher, meter: _Meter) -> bytes:
    """A bit for each token that may follow, the lowest first."""
    start_s = time.thread_time()
    mask = matcher.compute_bitmask()
    check(matcher)
    meter.note(time.thread_time() - start_s)
    return mask


def _without(mask: bytes, token_ids: list[int]) -> bytes:
    left = bytearray(mask)
    for token_id in token_ids:
        left[token_id // 8] &= ~(1 << token_id % 8)
    return bytes(left)


# --- ways ------------------------------------------------------------------------------------------------------------


def _ways(tokenizer: LLTokenizer) -> Iterator[Choose]:
    """At random; the lowest id, which in most vocabularies is a single byte; the same again; the longest."""
    for seed in range(RANDOM_WALKS):
        yield _at_random(random.Random(seed))
    yield lambda mask: _from(mask, 0)
    yield _the_same_again()
    yield _the_longest(tokenizer)


def _at_random(numbers: random.Random) -> Choose:
    return lambda mask: _from(mask, numbers.randrange(len(mask)))


def _the_same_again() -> Choose:
    last = 0

    def choose(mask: bytes) -> int:
        nonlocal last
        if not mask[last // 8] >> last % 8 & 1:
            last = _from(mask, 0)
        return last

    return choose


def _the_longest(tokenizer: LLTokenizer) -> Choose:
    numbers = random.Random(RANDOM_WALKS)

    def choose(mask: bytes) -> int:
        found = [_from(mask, numbers.randrange(len(mask))) for _ in range(SAMPLES)]
        return max(found, key=lambda token_id: len(tokenizer.decode_bytes([token_id])))

    return choose


def _from(mask: bytes, first: int) -> int:
    """The lowest allowed id in the mask's bytes from this one on, or from the beginning."""
    rest = mask[first:].lstrip(b"\0") or mask.lstrip(b"\0")
    at = len(mask) - len(rest) if len(rest) <= len(mask) - first else mask.index(rest[0])
    return at * 8 + (rest[0] & -rest[0]).bit_length() - 1
