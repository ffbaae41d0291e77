"""From the chunks of a step to the one flat batch that the model computes.

Knows rows, positions and slots. Does not know plans, outcomes or the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from services.executor.chunk import Chunk
from services.executor.model.forward import Batch
from services.executor.segments import segments_of


def flat_batch(chunks: Sequence[Chunk], device: torch.device) -> Batch:
    """The chunks one behind the other, given in tree order.

    Logits are wanted of all scored positions first; then, of each chunk that samples, of its last token and its drafts.
    """
    scoring: list[int] = []
    sampling: list[int] = []
    row = 0
    for chunk in chunks:
        own_end = row + chunk.end - chunk.start
        scoring.extend(row + position - 1 - chunk.start for position in chunk.scored)
        if chunk.samples:
            sampling.extend(range(own_end - 1, row + chunk.rows))
        row += chunk.rows
    spans = [(chunk.start, chunk.start + chunk.rows) for chunk in chunks]
    return Batch(
        token_ids=_tensor([part for chunk in chunks for part in _token_ids(chunk)], device),
        positions=_tensor([np.arange(start, end) for start, end in spans], device),
        slots=_tensor([chunk.lane.slots[start:end] for chunk, (start, end) in zip(chunks, spans, strict=True)], device),
        segments=segments_of(chunks),
        logits_rows=torch.tensor(scoring + sampling, dtype=torch.int64, device=device),
    )


def _token_ids(chunk: Chunk) -> tuple[np.ndarray, ...]:
    own = chunk.lane.tokens[chunk.start : chunk.end]
    return (own, chunk.drafts) if len(chunk.drafts) else (own,)


def _tensor(parts: list[np.ndarray], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(parts)).to(device)
