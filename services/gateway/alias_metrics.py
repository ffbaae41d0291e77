"""The main figures once more under another server's names, for dashboards and routers that were made for it.

Counts nothing itself: each scrape reads the registry that holds our metrics. Does not know whose names they are: see
`sglang_metrics` and `vllm_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

MODEL = "model_name"


@dataclass(frozen=True)
class Names:
    """Each: their name, and ours with the same meaning."""

    gauges: Mapping[str, str]
    counters: Mapping[str, str]
    histograms: Mapping[str, str]
    pages: tuple[str, str, str]  # a gauge of 1, its labels for the size of a page in tokens and the number of pages
    constants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # gauges of 1 with these labels


class AliasMetrics(Collector):
    """Args:
    source: the registry of our own metrics; this one is not to be registered there.
    """

    def __init__(self, source: CollectorRegistry, names: Names, model: str) -> None:
        self._source = source
        self._names = names
        self._model = model

    def collect(self) -> Iterator[Metric]:
        families = {family.name: family for family in self._source.collect()}
        values = _plain_values(families)
        for name, ours in self._names.gauges.items():
            yield self._gauge(name, f"The same as {ours}", values[ours])
        for name, ours in self._names.counters.items():
            counter = CounterMetricFamily(name, f"The same as {ours}", labels=[MODEL])
            counter.add_metric([self._model], values[ours])
            yield counter
        for name, ours in self._names.histograms.items():
            yield self._renamed(families[ours], name)
        yield self._pages(values)
        for name, labels in self._names.constants.items():
            yield self._gauge(name, "Always the same here", 1, labels)

    def _pages(self, values: Mapping[str, float]) -> Metric:
        name, size, count = self._names.pages
        page_tokens = int(values["sapwood_kv_page_tokens"])
        pages = int(values["sapwood_kv_capacity_tokens"]) // max(1, page_tokens)
        return self._gauge(name, "The KV pool", 1, {size: str(page_tokens), count: str(pages)})

    def _gauge(self, name: str, text: str, value: float, labels: Mapping[str, str] | None = None) -> Metric:
        labels = {MODEL: self._model, **(labels or {})}
        gauge = GaugeMetricFamily(name, text, labels=list(labels))
        gauge.add_metric(list(labels.values()), value)
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
