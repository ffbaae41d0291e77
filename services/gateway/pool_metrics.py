"""Gauges of the scheduler's queue and of the executors' pools and trees, set from the answer to Admin("counters").

The plain names are of all executors together; what begins with sapwood_executor_ is of each, by its name. An executor
that is gone is gone from the labels too, so there are never more of them than executors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from services.gateway.constraint_metrics import ConstraintFigures, ConstraintMetrics
from services.gateway.running_totals import RunningTotals

# Key of the figure: name of the gauge, what it says.
QUEUE_GAUGES = {
    "running": ("sapwood_running_requests", "Requests that hold KV"),
    "waiting": ("sapwood_waiting_requests", "Requests in the scheduler's queue"),
}
POOL_GAUGES = {
    "capacity_tokens": ("sapwood_kv_capacity_tokens", "KV slots"),
    "free_tokens": ("sapwood_kv_free_tokens", "KV slots that hold nothing"),
    "evictable_tokens": ("sapwood_kv_evictable_tokens", "KV slots that hold cached tokens nobody needs now"),
    "pinned_tokens": ("sapwood_kv_pinned_tokens", "KV slots that running requests hold"),
    "protected_in_all": ("sapwood_kv_protected_tokens", "Evictable KV slots that tenants' quotas keep from the others"),
    "cached_tokens": ("sapwood_cache_tokens", "Tokens in the radix cache"),
    "nodes": ("sapwood_cache_nodes", "Nodes of the radix cache"),
}
EXECUTOR_GAUGES = {
    "running": ("sapwood_executor_running_requests", "Requests that this executor holds KV for"),
    "capacity_tokens": ("sapwood_executor_kv_capacity_tokens", "KV slots of this executor"),
    "free_tokens": ("sapwood_executor_kv_free_tokens", "KV slots of this executor that hold nothing"),
    "evictable_tokens": ("sapwood_executor_kv_evictable_tokens", "Cached tokens of this executor nobody needs now"),
    "pinned_tokens": ("sapwood_executor_kv_pinned_tokens", "KV slots that requests running there hold"),
    "cached_tokens": ("sapwood_executor_cache_tokens", "Tokens in this executor's radix cache"),
}
POOL_COUNTERS = {
    "evicted_tokens": ("sapwood_cache_evicted_tokens", "Cached tokens that made room"),
    "drafted_tokens": ("sapwood_drafted_tokens", "Tokens guessed ahead from a request's own text, and computed"),
    "accepted_tokens": ("sapwood_accepted_draft_tokens", "Tokens guessed ahead that were found right"),
}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one executor tells of itself."""

    running: int = 0
    free_tokens: int = 0
    evictable_tokens: int = 0
    pinned_tokens: int = 0
    protected_tokens: dict[str, int] = {}  # by tenant
    cached_tokens: int = 0
    evicted_tokens: int = 0  # since its start
    nodes: int = 0
    namespaces: int = 0
    cheap_namespaces: int = 0
    drafted_tokens: int = 0  # since its start
    accepted_tokens: int = 0  # since its start
    constraints: ConstraintFigures = ConstraintFigures()

    @property
    def capacity_tokens(self) -> int:
        return self.free_tokens + self.evictable_tokens + self.pinned_tokens

    @property
    def protected_in_all(self) -> int:
        return sum(self.protected_tokens.values())


class PoolMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._queue = {key: Gauge(*named, registry=registry) for key, named in QUEUE_GAUGES.items()}
        self._compiling = Gauge(
            "sapwood_compiling_requests", "Requests that wait for their constraint to be compiled", registry=registry
        )
        self._oldest = Gauge("sapwood_oldest_waiting_seconds", "Age of the oldest that waits", registry=registry)
        self._pool = {key: Gauge(*named, registry=registry) for key, named in POOL_GAUGES.items()}
        self._usage = Gauge("sapwood_kv_usage_ratio", "Share of the KV slots that requests hold", registry=registry)
        self._page = Gauge("sapwood_kv_page_tokens", "KV slots that are handed out together", registry=registry)
        self._each = {key: Gauge(*named, ["executor"], registry=registry) for key, named in EXECUTOR_GAUGES.items()}
        namespaces = Gauge(
            "sapwood_cache_namespaces",
            "Namespaces of the radix cache, by mode: cheap where reuse is so low that little is kept",
            ["mode"],
            registry=registry,
        )
        self._full, self._cheap = namespaces.labels("full"), namespaces.labels("cheap")
        totals = {key: Counter(*named, registry=registry) for key, named in POOL_COUNTERS.items()}
        self._counters = RunningTotals(totals)
        self._constraints = ConstraintMetrics(registry)

    def update(self, payload: Mapping[str, Any]) -> None:
        for key, gauge in self._queue.items():
            gauge.set(payload["scheduler"][key])
        self._update_queue(payload["scheduler"].get("executors", {}).values())
        executors = msgspec.convert(payload["executors"], dict[str, Figures])
        for key, gauge in self._pool.items():
            gauge.set(sum(getattr(figures, key) for figures in executors.values()))
        self._usage.set(_usage(executors.values()))
        self._update_each(executors)
        cheap = sum(figures.cheap_namespaces for figures in executors.values())
        self._cheap.set(cheap)
        self._full.set(sum(figures.namespaces for figures in executors.values()) - cheap)
        self._counters.update(executors)
        self._constraints.update({name: figures.constraints for name, figures in executors.items()})

    def _update_queue(self, at_executors: Collection[Mapping[str, Any]]) -> None:
        """What the scheduler tells of each executor."""
        self._compiling.set(sum(figures["compiling"] for figures in at_executors))
        self._oldest.set(max((figures["oldest_wait_s"] for figures in at_executors), default=0.0))
        self._page.set(max((figures["page_size"] for figures in at_executors), default=0))

    def _update_each(self, executors: Mapping[str, Figures]) -> None:
        for key, gauge in self._each.items():
            gauge.clear()
            for name, figures in executors.items():
                gauge.labels(name).set(getattr(figures, key))


def _usage(executors: Collection[Figures]) -> float:
    capacity = sum(figures.capacity_tokens for figures in executors)
    return sum(figures.pinned_tokens for figures in executors) / capacity if capacity else 0.0
