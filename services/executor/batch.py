"""From the chunks of a step to the one flat batch that the model computes.

Knows rows, positions and slots. Does not know plans, outcomes or the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from services.executor.attention.base import SequenceSpan, SlotRun
from services.executor.lanes import Lane
from services.executor.model.forward import Batch
from services.executor.slots import Slots


@dataclass(frozen=True, slots=True)
class Chunk:
    """A lane's tokens [start, end) that are computed in this step; their slots are taken already."""

    lane: Lane
    start: int
    end: int

    @property
    def samples(self) -> bool:
        """The chunk reaches the end of what is known, and a token may follow."""
        return self.end == self.lane.known and self.lane.output_tokens < self.lane.max_new_tokens

    @property
    def scored(self) -> range:
        """The prompt positions whose log-probabilities its logits give."""
        return self.lane.unscored(self.end)


def flat_batch(chunks: Sequence[Chunk], device: torch.device) -> Batch:
    """The chunks one behind the other. Logits are wanted of all scored positions first, then of those that sample."""
    spans: list[SequenceSpan] = []
    scoring: list[int] = []
    sampling: list[int] = []
    row = 0
    for chunk in chunks:
        end_row = row + chunk.end - chunk.start
        spans.append(SequenceSpan(row, end_row, chunk.start, _place(chunk.lane.slots[: chunk.end], device)))
        scoring.extend(row + position - 1 - chunk.start for position in chunk.scored)
        if chunk.samples:
            sampling.append(end_row - 1)
        row = end_row
    parts = [(chunk.lane, slice(chunk.start, chunk.end)) for chunk in chunks]
    return Batch(
        token_ids=_tensor([lane.tokens[part] for lane, part in parts], device),
        positions=_tensor([np.arange(part.start, part.stop) for _, part in parts], device),
        slots=_tensor([lane.slots[part] for lane, part in parts], device),
        spans=tuple(spans),
        logits_rows=torch.tensor(scoring + sampling, dtype=torch.int64, device=device),
    )


def _place(slots: Slots, device: torch.device) -> SlotRun | torch.Tensor:
    if slots[-1] - slots[0] + 1 == len(slots) and bool((np.diff(slots) == 1).all()):
        return SlotRun(int(slots[0]), len(slots))
    return torch.from_numpy(slots).to(device)


def _tensor(parts: list[np.ndarray], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(parts)).to(device)
