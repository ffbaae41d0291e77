import numpy as np
import pytest

from tests.faults.ties import distance_to_edge, first_difference


def logits(*probabilities):
    return np.log(np.array(probabilities))


def test_the_first_difference():
    assert first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) is None


@pytest.mark.parametrize(
    ("drawn", "one", "other", "far"),
    [
        (0.499, 0, 1, 0.001),  # on the likeliest, just before the next one
        (0.501, 0, 1, 0.001),  # just behind it
        (0.3, 0, 1, 0.2),
        (0.3, 0, 0, 0.0),
        (0.1, 0, 2, 0.7),  # the third begins at 0.8
    ],
)
def test_how_far_the_number_drawn_was_from_the_edge(drawn, one, other, far):
    assert distance_to_edge(logits(0.5, 0.3, 0.2), drawn, one, other) == pytest.approx(far)


def test_two_tokens_as_likely_as_each_other_may_change_places():
    assert distance_to_edge(logits(0.3, 0.3001, 0.3999), 0.55, 0, 1) < 1e-3


def test_the_order_is_by_probability_and_then_by_id():
    assert distance_to_edge(logits(0.25, 0.5, 0.25), 0.74, 0, 2) == pytest.approx(0.0, abs=1e-9)
    assert distance_to_edge(logits(0.2, 0.5, 0.3), 0.55, 2, 2) == 0.0
