from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.drafts import FIRST_ACCEPTANCE, LONGEST_PAUSE, Drafts, recurrence

TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def array(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, np.int64)


def follow(tokens: list[int], known: int) -> Drafts:
    """Of a request whose tokens from `known` on have come one by one."""
    drafts = Drafts()
    for end in range(known + 1, len(tokens) + 1):
        drafts.observe(array(tokens[:end]))
    return drafts


def latest(tokens: list[int], length: int) -> int | None:
    """By definition: where the last so many tokens end, when they were last there before."""
    end = len(tokens)
    for place in range(end - 1, length - 1, -1):
        if tokens[place - length : place] == tokens[end - length :]:
            return place
    return None


@given(TEXTS)
def test_what_recurs_is_found_where_it_was_last(tokens: list[int]) -> None:
    expected = latest(tokens, 3)
    assert recurrence(array(tokens)) == (latest(tokens, 2) if expected is None else expected)


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        ([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], 3),  # three before two, though those are nearer
        ([1, 2, 3, 9, 2, 3], 3),
        ([1, 2, 3], None),
        ([5, 5], None),
        ([5, 5, 5], 2),
    ],
)
def test_three_tokens_are_looked_for_before_two(tokens: list[int], place: int | None) -> None:
    assert recurrence(array(tokens)) == place


def test_a_draft_goes_on_with_what_followed_then() -> None:
    tokens = [1, 2, 3, 4, 5, 6, 9, 1, 2]
    assert follow(tokens, 8).draft(array(tokens), 3).tolist() == [3, 4, 5]


def test_a_draft_behind_the_end_repeats_itself() -> None:
    tokens = [7, 1, 2, 3, 1, 2]
    assert follow(tokens, 5).draft(array(tokens), 5).tolist() == [3, 1, 2, 3, 1]


def test_without_recurrence_there_is_no_draft() -> None:
    drafts = follow([1, 2, 3, 4], 3)
    assert not drafts.has_guess
    assert len(drafts.draft(array([1, 2, 3, 4]), 5)) == 0
    assert drafts.acceptance == FIRST_ACCEPTANCE


def test_right_guesses_are_counted_though_nobody_uses_them() -> None:
    text = [*range(30), 99, *range(12)]
    assert follow(text, 31).acceptance > 0.9


def test_a_guess_is_followed_though_the_same_words_come_again() -> None:
    text = [1, 2, 3, 4, 8, 9, 1, 2, 3, 4]
    assert follow(text, 7).draft(array(text), 2).tolist() == [8, 9]


def test_wrong_guesses_lower_the_acceptance() -> None:
    text: list[int] = []
    for i in range(100):
        text += [1, 2, 100 + i]  # what follows "1, 2" is never the same
    assert follow(text, 6).acceptance < 0.3


def test_a_text_that_does_not_repeat_is_looked_at_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr("services.executor.drafts.recurrence", lambda tokens: looks.append(len(tokens)))
    follow(list(range(200)), 0)
    gaps = np.diff(looks).tolist()
    assert gaps == [2, 4, *[LONGEST_PAUSE + 1] * (len(gaps) - 2)]


def test_a_text_that_begins_to_repeat_is_noticed_within_a_pause() -> None:
    text = list(range(100)) + list(range(50))
    drafts = follow(text[: 100 + 4 + LONGEST_PAUSE], 50)
    assert drafts.has_guess


@given(TEXTS, st.integers(1, 9))
def test_a_draft_is_a_part_of_the_text(tokens: list[int], count: int) -> None:
    drafts = follow(tokens, 0)
    draft = drafts.draft(array(tokens), count).tolist()
    assert len(draft) == (count if drafts.has_guess else 0)
    assert set(draft) <= set(tokens)
