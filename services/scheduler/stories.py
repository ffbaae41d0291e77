"""The fields of the log lines that tell what becomes of a request here. docs/logs.md says what they mean."""

from __future__ import annotations

from typing import Any

from services.scheduler.account import Reason
from services.scheduler.request import Request
from shared import log_names


def named(request: Request) -> dict[str, Any]:
    submit = request.submit
    return log_names.named(submit.request_id, submit.trace_id, attempt=submit.attempt)


def started(request: Request) -> dict[str, Any]:
    """Once its first slice has been computed."""
    return {
        **named(request),
        "executor": request.executor_name,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.counts().cached_tokens,
        **_waits(request),
    }


def preempted(request: Request, executor_name: str, reason: Reason) -> dict[str, Any]:
    """Where it ran: by now it may run elsewhere."""
    return {**named(request), "executor": executor_name, "reason": reason}


def finished(request: Request, reason: str) -> dict[str, Any]:
    account = request.account
    return {
        **named(request),
        "reason": reason,
        "executor": request.executor_name or None,
        "prompt_tokens": request.prompt_tokens,
        "cached_tokens": request.counts().cached_tokens,
        "output_tokens": len(request.generated),
        "computed_tokens": account.computed_tokens,
        "forward_steps": account.forward_steps,
        "forced_tokens": account.forced_tokens,
        "preemptions": account.preemptions,
        **_waits(request),
    }


def _waits(request: Request) -> dict[str, float]:
    account = request.account
    return {"queue_s": round(account.queue_s, 6), "compile_s": round(account.compile_s, 6)}
