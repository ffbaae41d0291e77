"""Counters, histograms and gauges for /metrics, in a registry of their own. Knows prometheus-client, no route.

What the gateway counts itself agrees with the usage in the replies and with the log lines: all come from one record.
Figures of the scheduler and of the executors are asked for at the time of a scrape and handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from services.gateway.alias_metrics import AliasMetrics, Names
from services.gateway.generation import Usage
from services.gateway.pool_metrics import PoolMetrics
from services.gateway.stage_metrics import StageMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST

LATENCY_BUCKETS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0),
)


class Metrics:
    """Args:
    aliases: other servers' names, to show the main figures under those too.
    model: its name, which stands beside them.
    shows_tenants: who reads them may know what each tenant does.
    """

    def __init__(self, aliases: Iterable[Names] = (), *, model: str = "", shows_tenants: bool = True) -> None:
        # Without it each series has a time of creation beside it, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "sapwood_requests", "Requests answered, by route and outcome", ["route", "outcome"], registry=registry
        )
        self._open = Gauge("sapwood_open_requests", "Requests that are open in this gateway", registry=registry)
        self._prompt_tokens = Counter("sapwood_prompt_tokens", "Prompt tokens of ended requests", registry=registry)
        self._decode_tokens = Counter("sapwood_decode_tokens", "Output tokens delivered", registry=registry)
        hit = Counter("sapwood_cache_hit", "Prompt tokens found in the cache", ["type"], registry=registry)
        miss = Counter("sapwood_cache_miss", "Prompt tokens not found in the cache", ["type"], registry=registry)
        self._hit_tokens, self._miss_tokens = hit.labels("radix"), miss.labels("radix")
        self._hits_and_misses = (0, 0)
        self._hit_rate = Gauge("sapwood_cache_hit_rate", "Share of prompt tokens found so far", registry=registry)
        self._first_token = self._latency("sapwood_time_to_first_token_seconds", "From arrival to the first output")
        self._inter_token = self._latency("sapwood_inter_token_seconds", "Between neighbouring output tokens")
        self._resubmissions = Counter(
            "sapwood_resubmissions", "Further attempts of requests whose stage was lost", registry=registry
        )
        self._whole = self._latency("sapwood_request_seconds", "From arrival to the end of a generation")
        tenants = registry if shows_tenants else None
        self._tenant_requests = Counter(
            "sapwood_tenant_requests",
            "Requests answered, by tenant and outcome",
            ["tenant", "outcome"],
            registry=tenants,
        )
        self._tenant_tokens = Counter(
            "sapwood_tenant_tokens", "Tokens of ended requests, by tenant", ["tenant", "type"], registry=tenants
        )
        self._pool = PoolMetrics(registry)
        self._stages = StageMetrics(registry)
        self._aliases = CollectorRegistry()
        for names in aliases:
            self._aliases.register(AliasMetrics(registry, names, model))

    def output(self, num_tokens: int) -> None:
        self._decode_tokens.inc(num_tokens)

    def first_output(self, seconds: float) -> None:
        self._first_token.observe(seconds)

    def next_output(self, seconds: float, num_tokens: int) -> None:
        """A piece of so many tokens, so long after the one before."""
        for _ in range(num_tokens):
            self._inter_token.observe(seconds / num_tokens)

    def generated(self, usage: Usage, seconds: float) -> None:
        """A generation has ended, in whatever way."""
        self._whole.observe(seconds)
        self._prompt_tokens.inc(usage.prompt_tokens)
        missed_tokens = usage.prompt_tokens - usage.cached_tokens
        self._hit_tokens.inc(usage.cached_tokens)
        self._miss_tokens.inc(missed_tokens)
        hits, misses = self._hits_and_misses
        self._hits_and_misses = hits, misses = hits + usage.cached_tokens, misses + missed_tokens
        self._hit_rate.set(hits / (hits + misses) if hits + misses else 0.0)

    def resubmitted(self, times: int) -> None:
        self._resubmissions.inc(times)

    def answered(self, route: str, outcome: str) -> None:
        self._requests.labels(route, outcome).inc()

    def tenant(self, tenant: str, outcome: str, usage: Usage) -> None:
        """A request of this tenant has ended, in whatever way."""
        self._tenant_requests.labels(tenant, outcome).inc()
        self._tenant_tokens.labels(tenant, "prompt").inc(usage.prompt_tokens)
        self._tenant_tokens.labels(tenant, "completion").inc(usage.completion_tokens)

    def scheduler(self, payload: Mapping[str, Any]) -> None:
        """The answer to Admin("counters")."""
        self._pool.update(payload)

    def stages(self, processes: Mapping[str, int], lost: Mapping[str, int]) -> None:
        """How many there are of each stage, and how often one was lost."""
        self._stages.update(processes, lost)

    def text(self, open_requests: int) -> bytes:
        self._open.set(open_requests)
        return generate_latest(self._registry) + generate_latest(self._aliases)

    def _latency(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, registry=self._registry, buckets=LATENCY_BUCKETS_S)
