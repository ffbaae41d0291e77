"""The caps on a single request, whoever sends it. Knows the configuration and the model's card, nothing of HTTP."""

from __future__ import annotations

import msgspec

from shared import fair_room
from shared.config import Config, ConstraintsConfig
from shared.exposure import has_tenants
from shared.model_card import ModelCard


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on a single request, from the configuration and the model's card."""

    model_id: str
    max_model_len: int
    vocab_size: int
    max_choices: int
    max_stop_strings: int
    max_top_logprobs: int
    max_logit_bias: int
    constraints: ConstraintsConfig

    @classmethod
    def of(cls, config: Config, card: ModelCard) -> Limits:
        return cls(
            model_id=card.model_id,
            max_model_len=card.max_model_len,
            vocab_size=card.vocab_size,
            max_choices=min(config.gateway.max_choices, _most_at_once(config)),
            max_stop_strings=config.gateway.max_stop_strings,
            max_top_logprobs=config.gateway.max_top_logprobs,
            max_logit_bias=config.gateway.max_logit_bias,
            constraints=config.constraints,
        )


def _most_at_once(config: Config) -> int:
    """More outputs of one request would never fit, even if there is nothing else."""
    queued = config.scheduler.max_queued_requests
    return min(config.gateway.max_open_requests, fair_room.most(queued) if has_tenants(config.gateway) else queued)
