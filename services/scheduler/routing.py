"""Which executor a request goes to: where most of its prompt is known, weighed against the load there.

Knows loads, and by hashes what the requests begin with that are where. Does not know executors, requests or trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from services.scheduler.tokens import Tokens

BLOCK_TOKENS = 64

K = TypeVar("K")


class PrefixSketch(Generic[K]):
    """The prefixes of the requests that an executor has, also those that are not computed yet.

    Approximate: whole blocks of tokens, each known by a hash of all that leads to its end.
    """

    def __init__(self) -> None:
        self._noted: dict[K, tuple[int, ...]] = {}
        self._blocks: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def requests(self) -> int:
        return len(self._noted)

    def note(self, key: K, namespace: str, tokens: Tokens) -> None:
        """A request has come; under this key it is forgotten."""
        self._noted[key] = blocks = tuple(_blocks(namespace, tokens))
        self._blocks.update(blocks)

    def forget(self, key: K) -> None:
        """Raises KeyError if there is no such request."""
        for block in self._noted.pop(key):
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]

    def match(self, namespace: str, tokens: Tokens) -> int:
        """How many of the tokens one of the requests begins with."""
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
