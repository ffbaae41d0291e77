"""Which stages are there and how far they have come, from who joined and what the heartbeats say. Pure bookkeeping.

Tokenizers and detokenizers are seen directly; executors only through the scheduler, which counts its peers.
"""

from __future__ import annotations

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

    def __init__(self, hang_timeout_s: float) -> None:
        self._hang_timeout_s = hang_timeout_s
        self._peers: dict[str, StagePeer] = {}

    def joined(self, peer: str, role: wire.Role, name: str) -> None:
        self._peers[peer] = StagePeer(role, name, wire.Progress())

    def left(self, peer: str) -> StagePeer:
        return self._peers.pop(peer)

    def progressed(self, peer: str, progress: wire.Progress) -> None:
        if peer in self._peers:
            self._peers[peer].progress = progress

    def counts(self) -> dict[str, int]:
        """Live processes by role."""
        counts: dict[str, int] = dict.fromkeys(NEEDED, 0)
        for peer in self._peers.values():
            counts[peer.role] += 1
            counts["executor"] += peer.progress.peers.get("executor", 0)
        return counts

    def troubles(self) -> dict[str, str]:
        """By stage, why it serves nobody at present; empty if all is well."""
        troubles: dict[str, str] = {role: "none is connected" for role, count in self.counts().items() if count == 0}
        for role in NEEDED:
            peers = [peer for peer in self._peers.values() if peer.role == role]
            if peers and all(peer.progress.step_age_s > self._hang_timeout_s for peer in peers):
                age_s = min(peer.progress.step_age_s for peer in peers)
                troubles[role] = f"no progress for {age_s:.0f} s"
        return troubles
