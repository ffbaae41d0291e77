"""The same engine with the prefix cache and without it: who works when, and how programs are played there.

Both servers run and one works at a time; the order changes from round to round, and each round has new texts.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.cache.author import Desk
from scripts.bench.cache.program import Program
from scripts.bench.cache.runner import Runner, connect
from scripts.bench.cache.summary import Summary, summarise

CACHED, PLAIN = "cache", "no cache"

Found = dict[str, list[Summary]]  # by side, one for each round


@dataclass(frozen=True)
class Sides:
    urls: dict[str, str]
    desk: Desk
    rounds: int
    pictures: Path | None = None  # the folder for them

    @property
    def url(self) -> str:
        """Of the engine as it is served."""
        return self.urls[CACHED]

    def desk_of(self, number: int) -> Desk:
        """For the texts of a round that writes with a desk's own names."""
        return Desk(self.desk.encode, self.desk.seed + number)

    def in_turns(self, number: int) -> list[str]:
        return sorted(self.urls, reverse=number % 2 == 1)

    def play(self, side: str, programs: Sequence[Program], concurrency: int, namespace: str) -> Summary:
        async def played() -> Summary:
            async with connect(self.urls[side]) as client:
                return summarise(await Runner(client, "figures", namespace).play_all(programs, concurrency))

        return asyncio.run(played())


def new_namespace() -> str:
    """What is asked in it finds nothing of what others have asked."""
    return uuid.uuid4().hex[:8]
