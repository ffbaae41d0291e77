"""Outputs held against a model that is right: at each position, whether the token is its likeliest, and its logprob.

The teacher is given the output itself as its context, so a position is judged for itself, whatever came before it.
Knows logits. Does not know who has made the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from scripts.bench.measure.outputs import Output, Tokens

Judged = tuple[tuple[float, ...], tuple[float, ...]]  # of each token: gap to the highest logit, log-probability


@dataclass(frozen=True)
class Agreement:
    positions: int
    gaps: tuple[float, ...]  # of the tokens that are not the likeliest, the largest first
    logprob_error: float  # the largest

    @property
    def ties(self) -> int:
        return len(self.gaps)

    def holds(self, *, tie: float, error: float, part: float) -> bool:
        """No gap and no error beyond these, and no more ties than this part of the positions."""
        return max(self.gaps, default=0.0) < tie and self.logprob_error < error and self.ties <= part * self.positions


class Teacher:
    """Args:
    model: a model of transformers, in float32.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._judged: dict[tuple[Tokens, Tokens], Judged] = {}

    def compare(self, outputs: Iterable[Output]) -> Agreement:
        positions, error, gaps = 0, 0.0, []
        for output in outputs:
            behind, logprobs = self._judge(output.prompt, output.token_ids)
            positions += len(behind)
            gaps += [gap for gap in behind if gap > 0]
            error = max([error, *(abs(a - b) for a, b in zip(logprobs, output.logprobs, strict=True))])
        return Agreement(positions, tuple(sorted(gaps, reverse=True)), error)

    def _judge(self, prompt: Tokens, token_ids: Tokens) -> Judged:
        """The same output in many scenes is judged once."""
        key = prompt, token_ids
        if key not in self._judged:
            context = torch.tensor([prompt + token_ids[:-1]])
            with torch.inference_mode():
                logits = self._model(context, logits_to_keep=len(token_ids)).logits[0].to(torch.float32)
            chosen = torch.tensor(token_ids)[:, None]
            gaps = logits.max(dim=-1).values - logits.gather(1, chosen)[:, 0]
            logprobs = torch.log_softmax(logits, dim=-1).gather(1, chosen)[:, 0]
            self._judged[key] = tuple(gaps.tolist()), tuple(logprobs.tolist())
        return self._judged[key]
