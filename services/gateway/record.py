"""The account of one HTTP request, from arrival to its one canonical log line. Metrics are fed from the same figures.

Prompts, outputs and keys are not in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from services.gateway.errors import CLIENT_CLOSED_STATUS
from services.gateway.generation import Delta, Usage
from services.gateway.metrics import Metrics
from services.gateway.stream import Stream

Outcome = Literal["ok", "refused", "failed", "client_closed"]


@dataclass
class RequestRecord:
    request_id: str
    route: str  # the pattern, not the path: there are few of them
    metrics: Metrics
    tenant: str = ""
    wants_stream: bool = False
    constraint: str | None = None  # its kind
    stream: Stream | None = None  # of a generation, once it is open
    started_s: float = field(default_factory=time.monotonic)
    ttft_s: float | None = None
    _last_output_s: float = 0.0
    _counted_tokens: int = 0

    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    def output(self, delta: Delta) -> None:
        """A piece is about to be sent."""
        now_s = time.monotonic()
        if self.ttft_s is None:
            self.ttft_s = now_s - self.started_s
            self.metrics.first_output(self.ttft_s)
        else:
            self.metrics.next_output(now_s - self._last_output_s, delta.usage.completion_tokens - self._counted_tokens)
        self._last_output_s = now_s
        self._count(delta.usage)

    def close(self, status: int) -> dict[str, Any]:
        """Count it, and return the fields of its log line."""
        outcome = self._outcome(status)
        self.metrics.answered(self.route, outcome)
        line: dict[str, Any] = {
            "request_id": self.request_id,
            "tenant": self.tenant,
            "route": self.route,
            "status": status,
            "outcome": outcome,
            "stream": self.wants_stream,
            "total_s": round(self.elapsed_s(), 6),
        }
        return line | self._generation()

    def _outcome(self, status: int) -> Outcome:
        ending = self.stream.ending if self.stream is not None else None
        if status < 400 and ending is not None and ending.error is not None:
            status = ending.error.status  # a stream that broke had said 200 before
        if status == CLIENT_CLOSED_STATUS:
            return "client_closed"
        return "ok" if status < 400 else "refused" if status < 500 else "failed"

    def _generation(self) -> dict[str, Any]:
        ending = self.stream.ending if self.stream is not None else None
        if ending is None:
            return {}
        self._count(ending.usage)  # with what came too late to be sent
        self.metrics.generated(ending.usage, self.elapsed_s())
        return {
            "finish_reason": ending.finish_reason,
            "constraint": self.constraint,
            "error": ending.error.code if ending.error is not None else None,
            "prompt_tokens": ending.usage.prompt_tokens,
            "cached_tokens": ending.usage.cached_tokens,
            "completion_tokens": ending.usage.completion_tokens,
            "ttft_s": round(self.ttft_s, 6) if self.ttft_s is not None else None,
            "attempts": ending.attempts,
            "tokenizer": ending.tokenizer,
            "executor": ending.executor,
        }

    def _count(self, usage: Usage) -> None:
        self.metrics.output(usage.completion_tokens - self._counted_tokens)
        self._counted_tokens = usage.completion_tokens
