"""What may follow a request's tokens, guessed from where the last of them stood before; and how often that was right.

Knows one request's token ids. Does not know what a wrong guess costs.

A guess follows the earlier text for as long as the new tokens agree with it, whether it was put to use or not: so the
share of right ones is known before the first draft is computed, and costs nothing to know.
"""

from __future__ import annotations

import numpy as np

from services.executor.nodes import NO_TOKENS, Tokens

FIRST_ACCEPTANCE = 0.5  # before anything is measured
NOVELTY = 0.2  # weight of the newest guess
LONGEST_PAUSE = 7  # tokens between two looks at a text that does not repeat


class Drafts:
    """Of one request."""

    def __init__(self) -> None:
        self.acceptance = FIRST_ACCEPTANCE  # the share of guesses that are right, the latest count most
        self._place: int | None = None  # where the token stands that is guessed to come next
        self._hits = 0  # in a row
        self._pause = 0  # what passes after a look in vain, doubling
        self._left = 0  # of the pause

    def observe(self, tokens: Tokens) -> None:
        """The last of these tokens, all that are known, is new."""
        if self._place is not None:
            if tokens[self._place] == tokens[-1]:
                self._on_hit()
                return
            self._on_miss()
        if self._left:
            self._left -= 1
            return
        self._place = recurrence(tokens)
        if self._place is None:
            self._rest()

    @property
    def has_guess(self) -> bool:
        return self._place is not None

    def draft(self, tokens: Tokens, count: int) -> Tokens:
        """`count` tokens that may follow all that are known, if there is a guess. At the end of those it repeats."""
        return NO_TOKENS if self._place is None else np.resize(tokens[self._place :], count)

    def _on_hit(self) -> None:
        assert self._place is not None
        self.acceptance += NOVELTY * (1 - self.acceptance)
        self._place += 1
        self._hits += 1
        self._pause = self._left = 0

    def _on_miss(self) -> None:
        self.acceptance -= NOVELTY * self.acceptance
        self._place = None
        if not self._hits:
            self._rest()
        self._hits = 0

    def _rest(self) -> None:
        self._pause = self._left = min(2 * self._pause + 1, LONGEST_PAUSE)


def recurrence(tokens: Tokens) -> int | None:
    """Where the token stands that followed the last three tokens, or else the last two, when they were last here.

    A scan of a few microseconds: an index would cost more, since most requests have little use for it.
    """
    if len(tokens) < 3:
        return None
    ends = np.flatnonzero(tokens[1:-1] == tokens[-1]) + 1
    ends = ends[tokens[ends - 1] == tokens[-2]]
    if not len(ends):
        return None
    longer = ends[(ends > 1) & (tokens[ends - 2] == tokens[-3])]
    return int((longer if len(longer) else ends)[-1]) + 1
