"""The figures of a run, beside what an unbounded cache that is never late would have reused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import unbounded
from .trace import Record

HEADER = (
    f"{'workload':16}{'requests':>9}{'prompt':>9}{'reused':>9}{'hit rate':>10}{'ideal':>9}{'of ideal':>10}"
    f"{'computed':>10}{'tok/s':>8}{'ttft p50':>10}{'ttft p95':>10}"
)


@dataclass(frozen=True)
class Summary:
    workload: str
    requests: int
    prompt_tokens: int
    output_tokens: int
    reused_tokens: int
    ideal_tokens: int
    took_s: float  # from the first submission to the last reply
    ttft_p50_s: float
    ttft_p95_s: float

    @property
    def computed_tokens(self) -> int:
        """Of prompts."""
        return self.prompt_tokens - self.reused_tokens

    @property
    def tokens_per_s(self) -> float:
        """Prompt tokens that were served, reused or not, and output tokens."""
        return share(self.prompt_tokens + self.output_tokens, self.took_s)

    def line(self) -> str:
        return (
            f"{self.workload:16}{self.requests:9}{self.prompt_tokens:9}{self.reused_tokens:9}"
            f"{share(self.reused_tokens, self.prompt_tokens):10.1%}{self.ideal_tokens:9}"
            f"{share(self.reused_tokens, self.ideal_tokens):10.2%}{self.computed_tokens:10}{self.tokens_per_s:8.0f}"
            f"{self.ttft_p50_s:9.2f}s{self.ttft_p95_s:9.2f}s"
        )


def summarise(records: Sequence[Record]) -> Summary:
    """Of one workload's records, in the order of submission; at least one."""
    ttfts = sorted(record.ttft_s for record in records)
    return Summary(
        workload=records[0].workload,
        requests=len(records),
        prompt_tokens=sum(len(record.prompt_ids) for record in records),
        output_tokens=sum(len(record.output_ids) for record in records),
        reused_tokens=sum(record.cached_tokens for record in records),
        ideal_tokens=sum(unbounded.reused_tokens(records)),
        took_s=max(r.submitted_s + r.total_s for r in records) - records[0].submitted_s,
        ttft_p50_s=at(ttfts, 0.5),
        ttft_p95_s=at(ttfts, 0.95),
    )


def share(part: float, whole: float) -> float:
    """A quotient; of nothing, all: who could reuse nothing has missed nothing."""
    return part / whole if whole else 1.0


def at(ordered: Sequence[float], quantile: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]
