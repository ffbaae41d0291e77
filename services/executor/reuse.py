"""Which namespaces reuse so little that their cache is kept cheaply, by what their requests have found lately.

Knows sums of tokens by namespace. Does not know the tree, or what cheap means.

The sums are halved when they have grown large, so old requests weigh less and less. A namespace changes its mode only
at some distance from where it would change back. Now and then a request of a cheap namespace is kept as if it were not,
or what it could be reused for would never be seen.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

WINDOW_TOKENS = 32_768  # of prompts
LEAST_TOKENS = 8_192  # of prompts, and
LEAST_REQUESTS = 16  # before anything is said of a namespace
CHEAP_BELOW = 0.05  # of the prompt tokens were found
FULL_ABOVE = 0.10
SAMPLE_EVERY = 32
MOST_NAMESPACES = 4_096  # remembered; the one that was used longest ago is forgotten


@dataclass(slots=True)
class _Record:
    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    is_cheap: bool = False
    since_sample: int = 0

    def add(self, prompt_tokens: int, hit_tokens: int) -> None:
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.hit_tokens += hit_tokens
        while self.prompt_tokens > WINDOW_TOKENS:
            self.prompt_tokens //= 2
            self.hit_tokens //= 2

    def judge(self) -> None:
        if self.is_cheap:
            self.is_cheap = self.hit_tokens <= FULL_ABOVE * self.prompt_tokens
        elif self.requests >= LEAST_REQUESTS and self.prompt_tokens >= LEAST_TOKENS:
            self.is_cheap = self.hit_tokens < CHEAP_BELOW * self.prompt_tokens
            self.since_sample = 0

    def is_sample(self) -> bool:
        """Whether the request just added is one to be kept fully."""
        self.since_sample = (self.since_sample + 1) % SAMPLE_EVERY
        return self.since_sample == 0


class Reuse:
    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._cheap: set[str] = set()

    @property
    def cheap_namespaces(self) -> frozenset[str]:
        return frozenset(self._cheap)

    def note(self, namespace: str, *, prompt_tokens: int, hit_tokens: int) -> bool:
        """A request has begun. Returns whether it is to be kept cheaply."""
        record = self._records.setdefault(namespace, _Record())
        self._records.move_to_end(namespace)
        record.add(prompt_tokens, hit_tokens)
        record.judge()
        (self._cheap.add if record.is_cheap else self._cheap.discard)(namespace)
        if len(self._records) > MOST_NAMESPACES:
            self._cheap.discard(self._records.popitem(last=False)[0])
        return record.is_cheap and not record.is_sample()
