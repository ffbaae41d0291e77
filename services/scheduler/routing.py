"""Which executor a request goes to: where most of its prompt is known, weighed against the load there.

Knows loads, and by hashes what has been sent where. Does not know executors, requests or trees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.scheduler.tokens import Tokens

BLOCK_TOKENS = 64
MAX_BLOCKS = 65_536

K = TypeVar("K")


class PrefixSketch:
    """The prefixes that were sent to an executor, also those that are not computed yet.

    Approximate: whole blocks of tokens, each known by a hash of all that leads to its end. What was not sent for
    longest is forgotten first, a prefix from its end.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()  # the one that was sent last at the end

    def __len__(self) -> int:
        return len(self._blocks)

    def note(self, namespace: str, tokens: Tokens) -> None:
        """The tokens are sent."""
        for block in reversed(list(_blocks(namespace, tokens))):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def match(self, namespace: str, tokens: Tokens) -> int:
        """How many of the tokens have been sent before."""
        matched = 0
        for block in _blocks(namespace, tokens):
            if block not in self._blocks:
                break
            matched += BLOCK_TOKENS
        return matched


def _blocks(namespace: str, tokens: Tokens) -> Iterator[int]:
    """A hash for each whole block of the tokens."""
    before = hash(namespace)
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        before = hash((before, tokens[start : start + BLOCK_TOKENS].tobytes()))
        yield before


@dataclass(frozen=True, slots=True)
class Option(Generic[K]):
    """An executor that could take a request."""

    key: K
    load: int  # requests that run or wait there
    known_tokens: int = 0  # of the request: cached there, or on their way


class Balance(NamedTuple):
    """What makes an executor overloaded: so many more requests than the idlest has, and so many times as many.

    Short of that, each request that it has weighs as much as so many tokens of a prefix.
    """

    requests: int
    factor: float
    tokens: int

    def is_overloaded(self, load: int, least: int) -> bool:
        return load - least > self.requests and load > self.factor * least


def choose(options: Iterable[Option[K]], balance: Balance) -> K:
    """Where most of the request is known, weighed against the load, among those that are not overloaded.

    Of equals the least loaded, then the first.

    Raises:
        ValueError: there are no options.
    """
    options = list(options)
    least = min(option.load for option in options)
    balanced = [option for option in options if not balance.is_overloaded(option.load, least)]
    return max(balanced, key=lambda option: (option.known_tokens - balance.tokens * option.load, -option.load)).key
