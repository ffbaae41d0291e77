import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.tokens import common_tokens, pages_down, pages_up

runs = st.text("ab", max_size=8)


def tokens(run, kind):
    return np.array([ord(letter) for letter in run], kind)


@given(runs, runs)
def test_the_common_prefix_is_that_of_the_texts(ours, theirs):
    expected = max(length for length in range(min(len(ours), len(theirs)) + 1) if ours[:length] == theirs[:length])
    assert common_tokens(tokens(ours, np.int32), tokens(theirs, np.int64)) == expected


@given(st.integers(0, 100), st.integers(1, 16))
def test_whole_pages_enclose_the_tokens(count, page_size):
    down, up = pages_down(count, page_size), pages_up(count, page_size)
    assert down <= count <= up
    assert down % page_size == up % page_size == 0
    assert up - down == (page_size if count % page_size else 0)
