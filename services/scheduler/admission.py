"""Whether a request is taken in at all, and for how many tokens. Early and clear, before anything is spent on it."""

from __future__ import annotations

from shared import wire

RETRY_AFTER_S = 1.0

DEADLINE_EXCEEDED = wire.Error("the request did not end before its deadline", "deadline_exceeded", status=504)
DRAINING = wire.Error("the server is shutting down", "shutting_down", status=503, retry_after_s=RETRY_AFTER_S)


def refusal(submit: wire.Submit, *, waiting: int, max_waiting: int, draining: bool) -> wire.Error | None:
    """Why the request is not taken in. One that was before (attempt > 1) passes the queue's bound and draining."""
    if submit.time_left_s is not None and submit.time_left_s <= 0:
        return DEADLINE_EXCEEDED
    if submit.attempt > 1:
        return None
    if draining:
        return DRAINING
    if waiting >= max_waiting:
        message = f"{waiting} requests are waiting already; try again later"
        return wire.Error(message, "overloaded", status=429, retry_after_s=RETRY_AFTER_S)
    return None


def clamp(prompt_tokens: int, output_tokens: int, max_new_tokens: int, *, limit_tokens: int) -> int | wire.Error:
    """The output that leaves the request finishable if it runs alone, where one request may hold limit_tokens."""
    if prompt_tokens >= limit_tokens or prompt_tokens + output_tokens > limit_tokens:
        message = f"the prompt has {prompt_tokens} tokens, and there is room for {limit_tokens}, answer included"
        return wire.Error(message, "context_length_exceeded", param="prompt")
    return min(max_new_tokens, limit_tokens - prompt_tokens)
