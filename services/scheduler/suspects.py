"""Who may have crashed an executor: the requests that the plans in flight at its death were for, in groups.

    in flight at a death ──► two groups, each to run with nobody else in the step
        got past where it stood, or ended ──► cleared
        the executor died again ──► those in flight make two smaller groups
        the only one in flight at two deaths in a row ──► guilty

So each guilty one among n costs at most ceil(log2 n) + 2 deaths, and nobody else is given up, unless executors are
killed from outside again and again. An executor that turns out to be alive has had no death. Knows requests by their
keys, over all their attempts. Does not know executors or queues. A new scheduler has no suspects: they begin anew
there, and a gateway counts the attempts that it lost so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from services.scheduler.request import Key

REMEMBER_S = 600.0  # suspects that do not come back


@dataclass(slots=True, eq=False)
class Group:
    """To be tried together."""

    executor: str  # whose death it was
    died_s: float
    members: dict[Key, None] = field(default_factory=dict)
    turns: int = 0  # at an executor, that were too short


@dataclass(frozen=True, slots=True)
class Suspicion:
    group: Group
    reach_tokens: int  # what may have been computed of it when the executor died: beyond that it is cleared
    alone: bool  # there was no other in flight


class Suspects:
    def __init__(self) -> None:
        self._groups: list[Group] = []  # in the order in which they are to be tried
        self._suspicions: dict[Key, Suspicion] = {}

    def __len__(self) -> int:
        """Requests."""
        return len(self._suspicions)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups)

    def group(self, key: Key) -> Group | None:
        """None if it is no suspect."""
        suspicion = self._suspicions.get(key)
        return suspicion.group if suspicion is not None else None

    def died(self, executor: str, reach_tokens: Mapping[Key, int], now_s: float) -> Key | None:
        """An executor has died with these in flight. Returns the one that is guilty, and no suspect any more."""
        keys, alone = list(reach_tokens), len(reach_tokens) == 1
        earlier = {key: self._suspicions[key] for key in keys if key in self._suspicions}
        for key in earlier:
            self.clear(key)
        if alone and any(suspicion.alone for suspicion in earlier.values()):
            return keys[0]
        reach = dict(reach_tokens)
        for key, suspicion in earlier.items():
            reach[key] = max(reach[key], suspicion.reach_tokens)
        middle = (len(keys) + 1) // 2
        for half in (keys[:middle], keys[middle:]):
            self._accuse(half, Group(executor, now_s), reach, alone=alone)
        return None

    def _accuse(self, keys: Sequence[Key], group: Group, reach_tokens: Mapping[Key, int], *, alone: bool) -> None:
        if keys:
            self._groups.append(group)
        for key in keys:
            group.members[key] = None
            self._suspicions[key] = Suspicion(group, reach_tokens[key], alone)

    def computed(self, key: Key, tokens: int) -> None:
        """So much of it is computed now."""
        suspicion = self._suspicions.get(key)
        if suspicion is not None and tokens >= suspicion.reach_tokens:
            self.clear(key)

    def lives(self, executor: str) -> None:
        """It was only taken for dead."""
        for group in [group for group in self._groups if group.executor == executor]:
            self._dissolve(group)

    def clear(self, key: Key) -> None:
        """No suspect any more, if it was one."""
        suspicion = self._suspicions.pop(key, None)
        if suspicion is not None:
            del suspicion.group.members[key]
            if not suspicion.group.members:
                self._groups.remove(suspicion.group)

    def forget(self, now_s: float) -> None:
        """Those of long ago."""
        for group in [group for group in self._groups if now_s - group.died_s > REMEMBER_S]:
            self._dissolve(group)

    def _dissolve(self, group: Group) -> None:
        for key in list(group.members):
            self.clear(key)
