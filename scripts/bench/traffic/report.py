"""The figures of a phase, as plain JSON: rates, times, and digests that are equal where outputs are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from .reply import Reply


def summarise(replies: Sequence[Reply], *, wall_s: float, client_cpu_s: float) -> dict[str, Any]:
    good = [reply for reply in replies if reply.error is None]
    new_tokens = sum(reply.new_tokens for reply in good)
    cached = [reply.cached_tokens for reply in good if reply.cached_tokens is not None]
    rate = quantile(decode_rates(good), 0.5)
    summary = {
        "requests": len(replies),
        "failed": len(replies) - len(good),
        "wall_s": round(wall_s, 3),
        "prompt_tokens": sum(reply.prompt_tokens for reply in good),
        "cached_tokens": sum(cached) if cached else None,
        "new_tokens": new_tokens,
        "new_tok_s": round(new_tokens / wall_s, 1),
        "decode_tok_s_per_request_p50": None if rate is None else round(rate, 1),
        "ttft_ms": milliseconds([reply.first_s - reply.sent_s for reply in good if reply.first_s is not None]),
        "itl_ms": milliseconds([gap_s for reply in good for gap_s in reply.gaps_s]),
        "e2e_ms": milliseconds([reply.ended_s - reply.sent_s for reply in good]),
        "tokens_per_chunk": round(new_tokens / max(1, sum(reply.chunks for reply in good)), 2),
        "client_cpu_s": round(client_cpu_s, 3),
        "text_sha": digest(reply.text for reply in replies),
        "text_shas": [digest([reply.text]) for reply in replies],
    }
    errors = [reply.error for reply in replies if reply.error is not None]
    return summary | {"first_error": errors[0]} if errors else summary


def decode_rates(replies: Sequence[Reply]) -> list[float]:
    """Tokens per second of each request, once it had begun."""
    return [
        (reply.new_tokens - 1) / (reply.ended_s - reply.first_s)
        for reply in replies
        if reply.first_s is not None and reply.new_tokens > 1 and reply.ended_s > reply.first_s
    ]


def digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\x00".join(texts).encode()).hexdigest()[:12]


def quantile(values: Sequence[float], share: float) -> float | None:
    """Between the closest ranks by linear interpolation. None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def milliseconds(seconds: Sequence[float]) -> dict[str, float | None]:
    """The median and the 95th percentile."""
    found = {name: quantile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {name: None if value is None else round(value * 1e3, 1) for name, value in found.items()}
