import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from sapwood.commands.metrics_text import Snapshot, quantile_between

BOUNDS = [1.0, 2.0, 4.0]


def scrape(observations):
    registry = CollectorRegistry()
    histogram = Histogram("h", "h", registry=registry, buckets=BOUNDS)
    for value in observations:
        histogram.observe(value)
    return Snapshot.of(generate_latest(registry).decode())


def test_what_is_written_is_read():
    registry = CollectorRegistry()
    counter = Counter("c", 'A "help"\nof two lines', ["route", "outcome"], registry=registry)
    counter.labels('a "quoted", {odd} \\ route', "ok").inc(3)
    counter.labels("b", "ok").inc(1e9)
    counter.labels("b", "no").inc()
    snapshot = Snapshot.of(generate_latest(registry).decode())
    assert snapshot.total("c_total") == 1e9 + 4
    assert snapshot.by_label("c_total", "outcome") == {"ok": 1e9 + 3, "no": 1.0}
    assert snapshot.total("nothing") == 0


def test_quantiles_are_of_the_time_between():
    before, now = scrape([0.5] * 100), scrape([0.5] * 100 + [3.0] * 4)
    found = quantile_between(before.buckets("h"), now.buckets("h"), 0.5)
    assert found == pytest.approx(3.0)


def test_without_observations_there_is_none():
    snapshot = scrape([1.0])
    assert quantile_between(snapshot.buckets("h"), snapshot.buckets("h"), 0.5) is None
    assert quantile_between({}, {}, 0.5) is None


@given(st.lists(st.floats(0, 10), min_size=1), st.floats(0.01, 1))
def test_a_quantile_lies_in_the_bucket_of_its_observation(values, share):
    found = quantile_between({}, scrape(values).buckets("h"), share)
    ordered = sorted(values)
    rank = next(place for place, _ in enumerate(ordered) if (place + 1) / len(ordered) >= share - 1e-12)
    edges = [0.0, *BOUNDS, float("inf")]
    bounds = [(low, high) for low, high in itertools.pairwise(edges) if low < ordered[rank] <= high]
    low, high = bounds[0] if bounds else (0.0, BOUNDS[0])
    assert low <= found <= min(high, BOUNDS[-1]) + 1e-9
