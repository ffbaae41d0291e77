"""Mask rows, kept once however many states have the same.

Knows bits, and how many use them. Does not know states, grammars or budgets.

A row has a bit for each token id, least significant first, in int32 words: 1 for a token that may follow.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int32]

ROW_BYTES = 400  # besides its words, measured


def words_for(vocab_size: int) -> int:
    return -(-vocab_size // 32)


def only(token_ids: Iterable[int], words: Words) -> None:
    """Fill a row so that these tokens may follow, and no others."""
    words.fill(0)
    for token_id in token_ids:
        allow(words, token_id)


def allow(words: Words, token_id: int) -> None:
    words.view(np.uint32)[token_id >> 5] |= np.uint32(1 << (token_id & 31))


def forbid(words: Words, token_id: int) -> None:
    words.view(np.uint32)[token_id >> 5] &= ~np.uint32(1 << (token_id & 31))


class Row:
    """One content. Not to be changed."""

    __slots__ = ("content", "users", "words")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.words: Words = np.frombuffer(content, np.int32)
        self.users = 0

    def allows(self, token_id: int) -> bool:
        return bool(self.content[token_id >> 3] >> (token_id & 7) & 1)


class Rows:
    """All rows that are in use."""

    def __init__(self, vocab_size: int) -> None:
        self.row_bytes = 4 * words_for(vocab_size) + ROW_BYTES
        self._by_content: dict[bytes, Row] = {}

    def __len__(self) -> int:
        return len(self._by_content)

    def __contains__(self, content: bytes) -> bool:
        return content in self._by_content

    def take(self, content: bytes) -> Row:
        """The row of this content, with one user more."""
        row = self._by_content.get(content)
        if row is None:
            row = self._by_content[content] = Row(content)
        row.users += 1
        return row

    def give_back(self, row: Row) -> bool:
        """One user less; whether it was the last one, and the row is gone."""
        row.users -= 1
        if not row.users:
            del self._by_content[row.content]
        return not row.users

    def users(self) -> dict[bytes, int]:
        """By content."""
        return {content: row.users for content, row in self._by_content.items()}
