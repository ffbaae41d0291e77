import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.backends.protocol import Score
from sapwood.choices import MEASURES, greedy_token_selection, token_length_normalized
from sapwood.choices import unconditional_likelihood_normalized as gain

logprobs = st.lists(st.floats(-50, 0), min_size=1, max_size=5)


def scores(*lists):
    return [Score(choice=str(place), logprobs=tuple(each)) for place, each in enumerate(lists)]


def test_length_does_not_count():
    assert token_length_normalized(scores([-1.0], [-0.5, -0.5, -0.5])) == 1


def test_the_first_token_decides():
    assert greedy_token_selection(scores([-1.0, -9.0], [-2.0, 0.0])) == 0


def test_of_equal_beginnings_the_next_token_decides():
    assert greedy_token_selection(scores([-1.0, -3.0], [-1.0, -2.0], [-5.0])) == 1


def test_past_its_end_a_text_goes_on_with_its_mean():
    assert greedy_token_selection(scores([-1.0], [-1.0, -2.0])) == 0
    assert greedy_token_selection(scores([-1.0], [-1.0, -0.5])) == 1


def test_what_is_likely_anyway_gains_little():
    common = Score(choice="a", logprobs=(-1.0,), unconditional=(-0.5,))
    rare = Score(choice="b", logprobs=(-3.0,), unconditional=(-9.0,))
    assert gain([common, rare]) == 1


@pytest.mark.parametrize("name", list(MEASURES))
@given(lists=st.lists(logprobs, min_size=1, max_size=6))
def test_of_equals_it_is_the_first(name, lists):
    twice = [Score(choice="x", logprobs=tuple(each), unconditional=(0.0,) * len(each)) for each in [*lists, *lists]]
    assert MEASURES[name](twice) < len(lists)
