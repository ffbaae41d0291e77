"""The figures of a load: rates, percentiles, the share of prompts that was cached. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sapwood.commands.load.reply import Reply

SHARES = (0.5, 0.95, 0.99)


class Percentiles(msgspec.Struct, frozen=True):
    """In seconds; None of nothing."""

    p50: float | None
    p95: float | None
    p99: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    requests: int
    failed: int
    wall_s: float
    prompt_tokens: int
    new_tokens: int
    hit_rate: float | None  # share of the prompts' tokens found in the cache; None: the server does not say
    first_token_s: Percentiles
    piece_s: Percentiles  # between pieces of text
    token_s: Percentiles  # from token to token, of each request
    whole_s: Percentiles
    first_error: str | None

    @property
    def requests_per_s(self) -> float:
        return (self.requests - self.failed) / self.wall_s

    @property
    def new_tokens_per_s(self) -> float:
        return self.new_tokens / self.wall_s

    @property
    def tokens_per_s(self) -> float:
        return (self.prompt_tokens + self.new_tokens) / self.wall_s


def figures_of(replies: Sequence[Reply], wall_s: float) -> Figures:
    """Times and tokens are of the requests that ended well."""
    good = [reply for reply in replies if reply.error is None]
    prompt_tokens = sum(reply.prompt_tokens for reply in good)
    cached = [reply.cached_tokens for reply in good if reply.cached_tokens is not None]
    return Figures(
        requests=len(replies),
        failed=len(replies) - len(good),
        wall_s=wall_s,
        prompt_tokens=prompt_tokens,
        new_tokens=sum(reply.new_tokens for reply in good),
        hit_rate=sum(cached) / prompt_tokens if cached and prompt_tokens else None,
        first_token_s=percentiles(reply.first_s - reply.sent_s for reply in good if reply.first_s is not None),
        piece_s=percentiles(gap_s for reply in good for gap_s in reply.gaps_s),
        token_s=percentiles(reply.token_s for reply in good if reply.token_s is not None),
        whole_s=percentiles(reply.ended_s - reply.sent_s for reply in good),
        first_error=next((reply.error for reply in replies if reply.error is not None), None),
    )


def percentiles(values: Iterable[float]) -> Percentiles:
    ordered = sorted(values)
    return Percentiles(*(quantile(ordered, share) for share in SHARES))


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Between the closest ranks by linear interpolation."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
