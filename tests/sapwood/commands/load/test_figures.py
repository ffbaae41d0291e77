import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.commands.load.figures import figures_of, percentiles, quantile
from sapwood.commands.load.reply import Reply


def reply(**fields):
    given = {"sent_s": 0.0, "first_s": 1.0, "last_s": 3.0, "ended_s": 4.0, "prompt_tokens": 10, "new_tokens": 5}
    return Reply(**(given | {"cached_tokens": 8, "gaps_s": [0.5, 1.5]} | fields))


def test_figures_are_of_what_ended_well():
    figures = figures_of([reply(), reply(cached_tokens=2), reply(error="no", new_tokens=99)], 2.0)
    assert (figures.requests, figures.failed, figures.first_error) == (3, 1, "no")
    assert (figures.prompt_tokens, figures.new_tokens) == (20, 10)
    assert figures.hit_rate == 0.5
    assert (figures.requests_per_s, figures.new_tokens_per_s, figures.tokens_per_s) == (1.0, 5.0, 15.0)
    assert figures.first_token_s.p50 == 1.0
    assert figures.piece_s.p50 == 1.0
    assert figures.token_s.p50 == 0.5
    assert figures.whole_s.p99 == 4.0


def test_nothing_ended_well():
    figures = figures_of([reply(error="no")], 1.0)
    assert figures.hit_rate is None
    assert figures.whole_s.p50 is None


def test_a_server_that_says_nothing_of_its_cache_has_no_hit_rate():
    assert figures_of([reply(cached_tokens=None)], 1.0).hit_rate is None


@given(st.lists(st.floats(0, 1e6), min_size=2))
def test_percentiles_are_those_of_the_library(values):
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    found = percentiles(values)
    assert [found.p50, found.p95, found.p99] == pytest.approx([cuts[49], cuts[94], cuts[98]])


def test_of_one_value_all_are_it():
    assert [quantile([3.0], share) for share in (0.0, 0.5, 1.0)] == [3.0, 3.0, 3.0]
