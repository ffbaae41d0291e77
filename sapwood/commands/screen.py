"""What `sapwood top` shows, from two scrapes of /metrics and the time between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sapwood.commands.metrics_text import Snapshot, quantile_between
from sapwood.commands.terminal import Paint, bar, count, percent, seconds, table

BAR_WIDTH = 30
HISTOGRAMS = (
    ("first token", "sapwood_time_to_first_token_seconds"),
    ("token to token", "sapwood_inter_token_seconds"),
    ("whole request", "sapwood_request_seconds"),
)


@dataclass(frozen=True)
class Span:
    """What happened between two scrapes."""

    before: Snapshot
    now: Snapshot
    elapsed_s: float

    def growth(self, name: str) -> float:
        """Of a counter; after a restart of the server, all of it."""
        grown = self.now.total(name) - self.before.total(name)
        return grown if grown >= 0 else self.now.total(name)

    def rate(self, name: str, digits: int = 0) -> str:
        return f"{self.growth(name) / self.elapsed_s:.{digits}f}/s" if self.elapsed_s else "–"

    def quantile(self, name: str, share: float) -> float | None:
        return quantile_between(self.before.buckets(name), self.now.buckets(name), share)


def screen(span: Span, title: str, paint: Paint) -> list[str]:
    return [
        paint(title, "bold"),
        "",
        *_requests(span, paint),
        "",
        *_tokens(span),
        "",
        *_pool(span.now, paint),
        "",
        *_latencies(span, paint),
    ]


def _requests(span: Span, paint: Paint) -> list[str]:
    now = span.now
    by_outcome = now.by_label("sapwood_requests_total", "outcome")
    outcomes = " · ".join(f"{outcome} {count(number)}" for outcome, number in sorted(by_outcome.items()))
    waiting = now.total("sapwood_waiting_requests")
    line = [
        paint(f"{now.total('sapwood_running_requests'):.0f} running", "green"),
        paint(f"{waiting:.0f} waiting", *(["yellow"] if waiting else [])),
        f"{now.total('sapwood_compiling_requests'):.0f} compiling",
        f"{span.rate('sapwood_requests_total', 1)} answered",
    ]
    return [" · ".join(line), paint(f"in all: {outcomes or 'none'}", "dim")]


def _tokens(span: Span) -> list[str]:
    drafted = span.now.total("sapwood_drafted_tokens_total")
    accepted = span.now.total("sapwood_accepted_draft_tokens_total")
    rows = [
        ("output", "sapwood_decode_tokens_total"),
        ("prompts", "sapwood_prompt_tokens_total"),
        ("found in the cache", "sapwood_cache_hit_total"),
        ("evicted", "sapwood_cache_evicted_tokens_total"),
        ("forced by constraints", "sapwood_constraint_forced_tokens_total"),
    ]
    lines = [(name, span.rate(metric), count(span.now.total(metric))) for name, metric in rows]
    lines.append(("drafts accepted", percent(accepted / drafted if drafted else None), count(accepted)))
    return table(lines, heading=("tokens", "now", "in all"))


def _pool(now: Snapshot, paint: Paint) -> list[str]:
    capacity = now.total("sapwood_kv_capacity_tokens")
    pinned, evictable = now.total("sapwood_kv_pinned_tokens"), now.total("sapwood_kv_evictable_tokens")
    share = (pinned + evictable) / capacity if capacity else 0.0
    hit_rate = now.total("sapwood_cache_hit_rate")
    rows = [
        ("KV", share, "cyan", f"{count(pinned)} in use, {count(evictable)} kept, of {count(capacity)} tokens"),
        ("hit rate", hit_rate, "green", f"{count(now.total('sapwood_cache_nodes'))} nodes in the tree"),
    ]
    return [
        f"{name:<9}{paint(bar(part, BAR_WIDTH), colour)}│ {percent(part):>7}  {text}"
        for name, part, colour, text in rows
    ]


def _latencies(span: Span, paint: Paint) -> list[str]:
    rows = [
        (name, seconds(span.quantile(metric, 0.5)), seconds(span.quantile(metric, 0.95))) for name, metric in HISTOGRAMS
    ]
    heading, *lines = table(rows, heading=("", "p50", "p95"))
    return [paint(heading, "dim"), *lines]
