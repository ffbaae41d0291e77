"""What a request must satisfy so that computing it cannot hurt others. The tokenizer and the scheduler check it too.

Knows an Admit and the model's limits. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared import wire

INTERNAL = wire.Error("the executor failed on this request", "internal_error", status=500)
UNCONSTRAINED = wire.Error(
    "constrained decoding is not possible with this model's tokenizer", "unsupported", "constraint", status=501
)


@dataclass(frozen=True, slots=True)
class Limits:
    vocab_size: int
    max_model_len: int
    constrains: bool = False  # there is a stage for constraints


def refusal(admit: wire.Admit, limits: Limits) -> wire.Error | None:
    """Why the request cannot run here; None if it can."""
    if admit.constraint is not None and not limits.constrains:
        return UNCONSTRAINED
    if not admit.prompt_token_ids:
        return wire.Error("the prompt has no tokens", "invalid_prompt", "prompt")
    longest = len(admit.prompt_token_ids) + max(admit.max_new_tokens, len(admit.resume_token_ids))
    if longest > limits.max_model_len:
        reason = f"{longest} tokens of prompt and output exceed the context length of {limits.max_model_len}"
        return wire.Error(reason, "context_length_exceeded", "prompt")
    token_ids = admit.prompt_token_ids + admit.resume_token_ids
    for extreme in (min(token_ids), max(token_ids)):
        if not 0 <= extreme < limits.vocab_size:
            reason = f"token id {extreme} is outside the vocabulary of {limits.vocab_size}"
            return wire.Error(reason, "invalid_token_id", "prompt")
    return None
