"""The texts of grammars that came out of the sandbox: one that was evicted is compiled again without going there.

Knows texts by key, within a budget. Does not compile.
"""

from __future__ import annotations

from collections import OrderedDict

from shared.invariant import require


class Texts:
    """Args:
    budget_characters: of all texts together; the least recently used goes first.
    """

    def __init__(self, budget_characters: int) -> None:
        self._budget_characters = budget_characters
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._characters = 0

    def get(self, key: str) -> str | None:
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
        return text

    def put(self, key: str, text: str) -> None:
        self.forget(key)
        self._texts[key] = text
        self._characters += len(text)
        while self._characters > self._budget_characters:
            self._characters -= len(self._texts.popitem(last=False)[1])

    def forget(self, key: str) -> None:
        self._characters -= len(self._texts.pop(key, ""))

    def check_integrity(self) -> None:
        """Raises BrokenInvariant."""
        require(self._characters == sum(map(len, self._texts.values())), "the characters are miscounted")
        require(self._characters <= self._budget_characters, "the budget is exceeded")
