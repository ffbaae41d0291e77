import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.batch import grouped, run_all

batches = st.lists(st.fixed_dictionaries({"document": st.sampled_from("abc"), "question": st.integers(0, 3)}))


@given(batches)
def test_every_place_once_and_equal_first_arguments_together(batch):
    order = grouped(batch, ["document", "question"])
    assert sorted(order) == list(range(len(batch)))
    documents = [batch[place]["document"] for place in order]
    changes = sum(one != other for one, other in pairwise(documents))
    assert changes == max(len(set(documents)) - 1, 0)
    assert list(dict.fromkeys(documents)) == list(dict.fromkeys(each["document"] for each in batch))


def test_results_are_in_the_batchs_order_and_the_bar_reaches_its_end():
    out = io.StringIO()
    batch = [{"x": "b"}, {"x": "a"}, {"x": "b"}]
    assert run_all(lambda each: each["x"], batch, num_threads=2, progress_bar=True, out=out) == ["b", "a", "b"]
    assert out.getvalue().endswith("] 3/3\n")


def test_no_run_is_lost_to_an_empty_batch():
    assert run_all(lambda each: each, []) == []


def test_an_error_of_the_runner_is_raised():
    def fails(each):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(fails, [{"x": 1}])
