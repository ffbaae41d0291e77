"""The main figures once more under SGLang's names, for dashboards that were made for it. Derived from our own.

Knows both sets of names. Counts nothing itself: each scrape reads the registry that holds our metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

# SGLang's name: ours with the same meaning.
GAUGES = {
    "sglang:cache_hit_rate": "sapwood_cache_hit_rate",
    "sglang:num_running_reqs": "sapwood_running_requests",
    "sglang:num_queue_reqs": "sapwood_waiting_requests",
    "sglang:num_used_tokens": "sapwood_kv_pinned_tokens",
}
COUNTERS = {
    "sglang:prompt_tokens": "sapwood_prompt_tokens_total",
    "sglang:generation_tokens": "sapwood_decode_tokens_total",
    "sglang:num_requests": "sapwood_request_seconds_count",  # generations that have ended
}
HISTOGRAMS = {
    "sglang:time_to_first_token_seconds": "sapwood_time_to_first_token_seconds",
    "sglang:inter_token_latency_seconds": "sapwood_inter_token_seconds",
    "sglang:e2e_request_latency_seconds": "sapwood_request_seconds",
}
MODEL = "model_name"


class SglangMetrics(Collector):
    """Args:
    source: the registry of our own metrics; this one is not to be registered there.
    """

    def __init__(self, source: CollectorRegistry, model: str) -> None:
        self._source = source
        self._model = model

    def collect(self) -> Iterator[Metric]:
        families = {family.name: family for family in self._source.collect()}
        values = _plain_values(families)
        for name, ours in GAUGES.items():
            yield self._gauge(name, f"The same as {ours}", values[ours])
        usage = values["sapwood_kv_pinned_tokens"] / max(1, values["sapwood_kv_capacity_tokens"])
        yield self._gauge("sglang:token_usage", "Share of the KV slots that running requests hold", usage)
        for name, ours in COUNTERS.items():
            counter = CounterMetricFamily(name, f"The same as {ours}", labels=[MODEL])
            counter.add_metric([self._model], values[ours])
            yield counter
        for name, ours in HISTOGRAMS.items():
            yield self._renamed(families[ours], name)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(name, text, labels=[MODEL])
        gauge.add_metric([self._model], value)
        return gauge

    def _renamed(self, family: Metric, name: str) -> Metric:
        copy = Metric(name, f"The same as {family.name}", family.type)
        for sample in family.samples:
            labels = {MODEL: self._model, **sample.labels}
            copy.add_sample(name + sample.name.removeprefix(family.name), labels, sample.value)
        return copy


def _plain_values(families: Mapping[str, Metric]) -> dict[str, float]:
    """Of the samples without labels, by their own names."""
    return {sample.name: sample.value for family in families.values() for sample in family.samples if not sample.labels}
