import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.executor.constraint.masks import Rows, only, words_for
from tests.support.plain_grammar import tokens_of


@given(st.sets(st.integers(0, 99)))
def test_only_these_tokens_may_follow(token_ids: set[int]) -> None:
    words = np.full(words_for(100), 5, np.int32)
    only(token_ids, words)
    assert tokens_of(words) == token_ids
    row = Rows(100).take(words.tobytes())
    assert {token_id for token_id in range(100) if row.allows(token_id)} == token_ids
    assert (row.words == words).all()


def test_a_row_is_there_as_long_as_it_is_used() -> None:
    rows, content = Rows(64), bytes(range(8))
    first, second = rows.take(content), rows.take(bytes(range(8)))
    assert first is second
    assert (len(rows), rows.users()) == (1, {content: 2})
    assert not rows.give_back(first)
    assert content in rows
    assert rows.give_back(second)
    assert (len(rows), content in rows) == (0, False)


def test_words_cover_the_vocabulary() -> None:
    assert [words_for(size) for size in (1, 32, 33, 49_152)] == [1, 1, 2, 1536]
