"""What an operator sees of an executor. Knows its view, and changes nothing in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from services.scheduler.executors import Executor


def of_executor(executor: Executor, now_s: float) -> dict[str, Any]:
    oldest_s = min((request.arrived_s for request in executor.queued), default=now_s)
    return {
        "model_id": executor.info.model_id,
        "capacity_tokens": executor.capacity_tokens,
        "page_size": executor.info.page_size,
        "free_tokens": executor.capacity.free_tokens,
        "evictable_tokens": executor.capacity.evictable_tokens,
        "pinned_tokens": executor.capacity.pinned_tokens,
        "reserved_tokens": sum(flight.reserved_tokens for flight in executor.flights),
        "running": executor.running_requests,
        "waiting": executor.waiting_requests,
        "oldest_wait_s": round(max(0.0, now_s - oldest_s), 3),
        "held_back": len(executor.promises),
        "compiling": len(executor.parking),
        "mirrored_tokens": executor.index.tokens,
        "plans_in_flight": len(executor.flights),
        "last_seq": executor.next_seq - 1 - len(executor.flights),
        "recent_step_s": _quantiles(executor.recent_step_s),
    }


def _quantiles(seconds: Collection[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: ordered[int(share * (len(ordered) - 1))] for name, share in shares.items()} if ordered else {}
