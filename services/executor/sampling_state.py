"""What sampling needs to remember of one request, and how that changes its logits before a token is chosen.

Knows a single row. The order is: penalties, as in transformers (repetition, over prompt and output) and as in OpenAI's
interface (presence and frequency, over the output); then the bias; then what is not allowed at all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from shared import wire

GREEDY_BELOW = 1e-5  # a lower temperature is taken for 0: dividing by it would overflow
SMALLEST_PENALTY = 1e-5  # stands for a smaller one, for the same reason


class SamplingState:
    """One request's, from its admission to its end; a token counts once it is appended."""

    def __init__(
        self,
        sampling: wire.Sampling,
        prompt_token_ids: Sequence[int],
        output_token_ids: Sequence[int] = (),
        *,
        eos_token_ids: Collection[int],
    ) -> None:
        self.sampling = sampling
        self.position = len(prompt_token_ids)  # of the next token, from the start of the prompt
        self._output_tokens = 0
        self._output_counts: dict[int, int] = {}  # by token id, 0 for one that only the prompt has
        self._penalizes = (
            sampling.repetition_penalty != 1 or sampling.presence_penalty != 0 or sampling.frequency_penalty != 0
        )
        eos = () if sampling.ignore_eos else eos_token_ids
        self._stop_token_ids = sorted({*sampling.stop_token_ids, *eos})
        if self._penalizes:
            self._output_counts = dict.fromkeys(prompt_token_ids, 0)
        for token_id in output_token_ids:
            self.append(token_id)

    @property
    def is_greedy(self) -> bool:
        return self.sampling.temperature < GREEDY_BELOW or self.sampling.top_k == 1

    def append(self, token_id: int) -> None:
        """The token has become a part of the output."""
        self.position += 1
        self._output_tokens += 1
        if self._penalizes:
            self._output_counts[token_id] = self._output_counts.get(token_id, 0) + 1

    def after(self, token_ids: Iterable[int]) -> Iterator[SamplingState]:
        """What it will be behind each of these tokens, one after the other. The state itself stays what it is."""
        state = self
        for token_id in token_ids:
            state = copy.copy(state)
            if state._penalizes:
                state._output_counts = dict(state._output_counts)
            state.append(token_id)
            yield state

    def edit(self, logits: Tensor) -> None:
        """Change the request's own logits, (vocab_size,), in place."""
        if self._penalizes and self._output_counts:
            self._penalize(logits)
        if self.sampling.logit_bias:
            token_ids = torch.tensor(list(self.sampling.logit_bias), device=logits.device)
            biases = torch.tensor(list(self.sampling.logit_bias.values()), dtype=logits.dtype, device=logits.device)
            logits.index_add_(0, token_ids, biases)
        if self._output_tokens < self.sampling.min_new_tokens and self._stop_token_ids:
            logits[self._stop_token_ids] = -math.inf

    def _penalize(self, logits: Tensor) -> None:
        token_ids = torch.tensor(list(self._output_counts), device=logits.device)
        counts = torch.tensor(list(self._output_counts.values()), dtype=logits.dtype, device=logits.device)
        scores = logits[token_ids]
        repetition = max(self.sampling.repetition_penalty, SMALLEST_PENALTY)
        scores = torch.where(scores < 0, scores * repetition, scores / repetition)
        scores -= self.sampling.presence_penalty * (counts > 0) + self.sampling.frequency_penalty * counts
        logits[token_ids] = scores
