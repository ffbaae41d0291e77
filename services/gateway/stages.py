"""Which stages are there and how far they have come, from who joined and what the heartbeats say. Pure bookkeeping.

Tokenizers and detokenizers are seen directly; executors only through the scheduler, which counts its peers. Who starts
a stage again, on which machine, is not known: a stage that crashes again and again shows as one that is lost often.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from shared import wire

NEEDED: tuple[wire.Role, ...] = ("tokenizer", "scheduler", "executor", "detokenizer")


@dataclass
class StagePeer:
    role: wire.Role
    name: str
    progress: wire.Progress


class Stages:
    """Args:
    hang_timeout_s: a piece of work in hand for longer means that its stage hangs.
    """

    def __init__(self, hang_timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._clock = clock
        self._peers: dict[str, StagePeer] = {}
        self._lost: Counter[str] = Counter()  # of those that are seen directly; executors of schedulers that are gone
        self._missing_since_s: dict[str, float] = {}
        self._look()

    def joined(self, peer: str, role: wire.Role, name: str) -> None:
        self._peers[peer] = StagePeer(role, name, wire.Progress())
        self._look()

    def left(self, peer: str) -> StagePeer:
        gone = self._peers.pop(peer)
        self._lost[gone.role] += 1
        self._lost["executor"] += gone.progress.lost.get("executor", 0)
        self._look()
        return gone

    def progressed(self, peer: str, progress: wire.Progress) -> None:
        if peer in self._peers:
            self._peers[peer].progress = progress
            self._look()

    def _look(self) -> None:
        """For those of which there is none."""
        missing = [role for role, count in self.counts().items() if count == 0]
        self._missing_since_s = {role: self._missing_since_s.get(role, self._clock()) for role in missing}

    def counts(self) -> dict[str, int]:
        """Live processes by role."""
        counts: dict[str, int] = dict.fromkeys(NEEDED, 0)
        for peer in self._peers.values():
            counts[peer.role] += 1
            counts["executor"] += peer.progress.peers.get("executor", 0)
        return counts

    def lost(self) -> dict[str, int]:
        """By role, how often a process has left since this gateway began."""
        seen = sum(peer.progress.lost.get("executor", 0) for peer in self._peers.values())
        return {role: self._lost[role] + (seen if role == "executor" else 0) for role in NEEDED}

    def missing(self) -> dict[str, dict[str, float]]:
        """By stage of which there is none: for how long, and how often one of its processes was lost before."""
        now_s, lost = self._clock(), self.lost()
        return {
            role: {"missing_s": round(now_s - since_s, 1), "lost": lost[role]}
            for role, since_s in self._missing_since_s.items()
        }

    def troubles(self) -> dict[str, str]:
        """By stage, why it serves nobody at present; empty if all is well."""
        troubles: dict[str, str] = {role: "none is connected" for role, count in self.counts().items() if count == 0}
        for role in NEEDED:
            peers = [peer for peer in self._peers.values() if peer.role == role]
            if peers and all(peer.progress.step_age_s > self._hang_timeout_s for peer in peers):
                age_s = min(peer.progress.step_age_s for peer in peers)
                troubles[role] = f"no progress for {age_s:.0f} s"
        return troubles
