"""Compiled grammars by key, within a budget of bytes, and constraints that were refused.

Knows who is in use and who was used last. Does not compile, and keeps no states. The event loop puts and looks up, the
step thread takes into use: one lock. What is evicted after it was in use is retired, until the step thread has taken it
and forgotten its states.

Nobody can see how much a lexer has learned, so from its first use on a grammar is charged the most that it can be.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from services.executor.constraint.engine import LEXER_BYTES, Grammar
from shared import wire
from shared.invariant import BrokenInvariant

MAX_REFUSALS = 1024
IDLE_PARTS = 8  # such a part of the budget is for what is not in use, however much is: those who wait need it next


@dataclass(slots=True)
class _Entry:
    grammar: Grammar
    users: int = 0
    was_used: bool = False

    @property
    def size_bytes(self) -> int:
        return self.grammar.size_bytes + (LEXER_BYTES if self.was_used else 0)


class GrammarCache:
    """Args:
    budget_bytes: what is in use is kept beyond it, and so is what was put last until it has been in use. An eighth of
        it is for what is not in use in any case.
    """

    def __init__(self, budget_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.compiled = 0  # grammars that were put, from the start
        self.refused = 0
        self._budget_bytes = budget_bytes
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the least recently used first
        self._awaited: str | None = None  # put last, and not in use yet
        self._size_bytes = 0
        self._retired: list[Grammar] = []
        self._refusals: OrderedDict[str, tuple[wire.Error, float | None]] = OrderedDict()  # and when it is forgotten

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    # --- grammars ----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Grammar | None:
        with self._lock:
            entry = self._touched(key)
            return None if entry is None else entry.grammar

    def put(self, grammar: Grammar) -> None:
        with self._lock:
            self.compiled += 1
            if grammar.key in self._entries:
                return  # whoever uses that one goes on with it
            self._entries[grammar.key] = _Entry(grammar)
            self._size_bytes += grammar.size_bytes
            self._awaited = grammar.key
            self._evict()

    def acquire(self, key: str) -> Grammar | None:
        """As `get`; it stays until it is released as often."""
        with self._lock:
            entry = self._touched(key)
            if entry is None:
                return None
            entry.users += 1
            if key == self._awaited:
                self._awaited = None
            if not entry.was_used:
                entry.was_used = True
                self._size_bytes += LEXER_BYTES
                self._evict()
            return entry.grammar

    def release(self, grammar: Grammar) -> None:
        with self._lock:
            entry = self._entries[grammar.key]
            entry.users -= 1
            self._evict()

    def take_retired(self) -> list[Grammar]:
        """What was in use and then evicted since the last call: nobody gets it again."""
        if not self._retired:
            return []
        with self._lock:
            retired, self._retired = self._retired, []
            return retired

    def _touched(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def _evict(self) -> None:
        if self._size_bytes <= self._budget_bytes:
            return
        excess = self._excess_bytes()
        for entry in list(filter(self._is_idle, self._entries.values())):
            if excess <= 0:
                return
            del self._entries[entry.grammar.key]
            self._size_bytes -= entry.size_bytes
            excess -= entry.size_bytes
            if entry.was_used:
                self._retired.append(entry.grammar)

    def _excess_bytes(self) -> int:
        """What is to be evicted."""
        idle_bytes = sum(entry.size_bytes for entry in self._entries.values() if self._is_idle(entry))
        return min(self._size_bytes - self._budget_bytes, idle_bytes - self._budget_bytes // IDLE_PARTS)

    def _is_idle(self, entry: _Entry) -> bool:
        return entry.users == 0 and entry.grammar.key != self._awaited

    # --- refusals ----------------------------------------------------------------------------------------------------

    def refuse(self, key: str, error: wire.Error, *, for_s: float | None = None) -> None:
        """Remember what was said; for so long, where another try could end otherwise."""
        with self._lock:
            self.refused += 1
            self._refusals.pop(key, None)
            self._refusals[key] = (error, None if for_s is None else self._clock() + for_s)
            if len(self._refusals) > MAX_REFUSALS:
                self._refusals.popitem(last=False)

    def refusal(self, key: str) -> wire.Error | None:
        with self._lock:
            error, end_s = self._refusals.get(key, (None, None))
            if error is not None and end_s is not None and self._clock() >= end_s:
                del self._refusals[key]
                return None
            if error is not None:
                self._refusals.move_to_end(key)
            return error

    # --- for tests ---------------------------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raises BrokenInvariant."""
        with self._lock:
            sizes = sum(entry.size_bytes for entry in self._entries.values())
            if sizes != self._size_bytes:
                raise BrokenInvariant(f"{sizes} bytes of grammars are counted as {self._size_bytes}")
            if any(entry.users < 0 for entry in self._entries.values()):
                raise BrokenInvariant("a grammar was released more often than taken")
            if any(entry.users and not entry.was_used for entry in self._entries.values()):
                raise BrokenInvariant("a grammar is in use, and its lexer is not counted")
            if self._excess_bytes() > 0:
                raise BrokenInvariant("over the budget, and there is something to evict")
            if len(self._refusals) > MAX_REFUSALS:
                raise BrokenInvariant("too many refusals are remembered")
