"""The account of one HTTP request, from arrival to its one canonical log line. Metrics are fed from the same figures.

Prompts, outputs and keys are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from services.gateway.errors import CLIENT_CLOSED_STATUS
from services.gateway.generation import Delta, Ending, Usage, Work, total
from services.gateway.key_limits import Permit
from services.gateway.metrics import Metrics
from services.gateway.schemas.call import Call
from services.gateway.stream import Stream
from services.gateway.trace import Trace, Untraced
from shared.log_names import named

Outcome = Literal["ok", "refused", "failed", "client_closed"]

COUNTS = ("forced_tokens", "forward_steps", "preemptions")
WAITS = ("tokenizer_wait_s", "encode_s", "queue_s", "compile_s")


@dataclass
class RequestRecord:
    request_id: str
    route: str  # the pattern, not the path: there are few of them
    metrics: Metrics
    tenant: str = ""
    wants_stream: bool = False
    constraint: str | None = None  # its kind
    prompts: int = 1
    samples: int = 1  # of each prompt
    trace: Trace = field(default_factory=Untraced)
    error: str | None = None  # the code of what it was refused with
    stream: Stream | None = None  # of its generations, once they are open
    permit: Permit | None = None  # by the limits of its key, until it has ended
    limit_headers: Mapping[str, str] = field(default_factory=dict)  # what the client is told of these
    started_s: float = field(default_factory=time.monotonic)
    read_s: float | None = None  # until its body had been read, and it was let in
    ttft_s: float | None = None
    _last_output_s: dict[int, float] = field(default_factory=dict)  # by generation
    _later_s: float = 0.0  # of all generations, from their first outputs on,
    _later_tokens: int = 0  # in which so many tokens came
    _counted_tokens: int = 0

    def opened(self, call: Call, stream: Stream) -> None:
        constraint = call.parts[0].request.constraint
        self.wants_stream = call.stream
        self.constraint = constraint.kind if constraint is not None else None
        self.prompts = len(call.parts)
        self.samples = call.samples
        self.stream = stream
        self.read_s = self.elapsed_s()

    def end_permit(self) -> None:
        """All its generations have ended. Does nothing if another record has taken the permit over."""
        if self.permit is not None:
            self.permit.end(self.usage.total_tokens)
            self.permit = None

    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s

    def output(self, index: int, delta: Delta) -> None:
        """A piece of a generation is about to be sent."""
        now_s = time.monotonic()
        if self.ttft_s is None:
            self.ttft_s = now_s - self.started_s
            self.metrics.first_output(self.ttft_s)
        elif index in self._last_output_s:
            self._later_s += now_s - self._last_output_s[index]
            self._later_tokens += len(delta.token_ids)
            self.metrics.next_output(now_s - self._last_output_s[index], len(delta.token_ids))
        self._last_output_s[index] = now_s
        self._count(len(delta.token_ids))

    @property
    def usage(self) -> Usage:
        """Once all generations have ended."""
        endings = self.stream.endings if self.stream is not None else {}
        return total({index: ending.usage for index, ending in endings.items()}, self.samples)

    def name(self) -> dict[str, Any]:
        """What each line about it begins with."""
        return named(self.request_id, self.trace.trace_id)

    def arrival(self) -> dict[str, Any]:
        """The fields of the line that says that it was let in."""
        return {
            **self.name(),
            "attempt": 1,
            "tenant": self.tenant,
            "route": self.route,
            "stream": self.wants_stream,
            "prompts": self.prompts,
            "n": self.samples,
            "constraint": self.constraint,
        }

    def close(self, status: int) -> dict[str, Any]:
        """Count it, end its trace, and return the fields of its log line."""
        outcome = self._outcome(status)
        self.metrics.answered(self.route, outcome)
        if self.tenant:
            self.metrics.tenant(self.tenant, outcome, self.usage)
        line: dict[str, Any] = {
            **self.name(),
            "tenant": self.tenant,
            "route": self.route,
            "status": status,
            "outcome": outcome,
            "error": self.error,
            "stream": self.wants_stream,
            "total_s": round(self.elapsed_s(), 6),
        }
        line |= self._generation()
        self.trace.end(line)
        return line

    @property
    def _ending(self) -> Ending | None:
        """That of the first generation which failed, if there is one: for those that had to end with it, it is why."""
        endings = self.stream.endings.values() if self.stream is not None else ()
        return min(endings, key=_weight, default=None)

    def _outcome(self, status: int) -> Outcome:
        ending = self._ending
        if status < 400 and ending is not None and ending.error is not None:
            status = ending.error.status  # a stream that broke had said 200 before
        if status == CLIENT_CLOSED_STATUS:
            return "client_closed"
        return "ok" if status < 400 else "refused" if status < 500 else "failed"

    def _generation(self) -> dict[str, Any]:
        ending, usage = self._ending, self.usage
        if ending is None or self.stream is None:
            return {}
        self._count(usage.completion_tokens - self._counted_tokens)  # with what came too late to be sent
        self.metrics.generated(usage, self.elapsed_s())
        endings = self.stream.endings.values()
        resubmissions = sum(each.attempts - 1 for each in endings)
        self.metrics.resubmitted(resubmissions)
        return {
            "finish_reason": ending.finish_reason,
            "constraint": self.constraint,
            "error": ending.error.code if ending.error is not None else self.error,
            "prompts": self.prompts,
            "n": self.samples,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "read_s": _rounded(self.read_s),
            "ttft_s": _rounded(self.ttft_s),
            "tpot_s": _rounded(self._later_s / self._later_tokens if self._later_tokens else None),
            **_work([each.work for each in endings]),
            "attempts": 1 + resubmissions,
            "tokenizer": ending.tokenizer,
            "executor": ending.executor,
        }

    def _count(self, tokens: int) -> None:
        self.metrics.output(tokens)
        self._counted_tokens += tokens


def _work(parts: Sequence[Work]) -> dict[str, Any]:
    """Counts of all generations together; the longest of their waits, since they wait side by side."""
    return {
        **{name: sum(getattr(part, name) for part in parts) for name in COUNTS},
        **{name: _rounded(max(getattr(part, name) for part in parts)) for name in WAITS},
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _weight(ending: Ending) -> int:
    if ending.error is None:
        return 2
    return 1 if ending.error.status == CLIENT_CLOSED_STATUS else 0
