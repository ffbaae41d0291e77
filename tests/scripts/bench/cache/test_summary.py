import pytest

from scripts.bench.cache.summary import HEADER, at, share, summarise
from tests.scripts.bench.cache.traces import record

TRACE = [
    record([1, 2, 3, 4], [5, 6], submitted_s=10.0, ttft_s=1.0, total_s=4.0),
    record([1, 2, 3, 4, 5], [6], submitted_s=11.0, cached=3, ttft_s=3.0, total_s=4.5),
]


def test_the_figures():
    summary = summarise(TRACE)
    assert (summary.requests, summary.prompt_tokens, summary.output_tokens) == (2, 9, 3)
    assert (summary.reused_tokens, summary.ideal_tokens, summary.computed_tokens) == (3, 4, 6)
    assert summary.took_s == 5.5
    assert summary.tokens_per_s == pytest.approx(12 / 5.5)
    assert (summary.ttft_p50_s, summary.ttft_p95_s) == (1.0, 3.0)


def test_the_columns_stand_below_their_names():
    assert len(summarise(TRACE).line()) == len(HEADER)
    assert "75.00%" in summarise(TRACE).line()


@pytest.mark.parametrize(("quantile", "expected"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.75, 3), (0.95, 4), (1.0, 4)])
def test_a_quantile_is_one_of_the_values(quantile, expected):
    assert at([1, 2, 3, 4], quantile) == expected


def test_of_nothing_all_was_had():
    assert share(0, 0) == 1.0
    assert share(1, 4) == 0.25
