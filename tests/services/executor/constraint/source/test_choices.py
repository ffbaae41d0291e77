from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.constraint.source import choices
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_bytes import takes

CAPS = ConstraintsConfig()
TEXTS = st.text(st.sampled_from('ab/\\"[](){}|*. \n\0é龥😀'), min_size=1, max_size=5)


@given(st.lists(TEXTS, min_size=1, max_size=5, unique=True), TEXTS)
@settings(deadline=None, max_examples=100)
def test_exactly_the_choices_are_taken(listed: list[str], other: str) -> None:
    grammar = choices.grammar(listed, caps=CAPS)
    for text in (*listed, other, *(one + other for one in listed), *(one[:-1] for one in listed)):
        assert takes(grammar, text) == (text in listed)


@pytest.mark.parametrize(
    ("listed", "reason", "path"),
    [
        ("a", "array", ()),
        ([], "at least one", ()),
        ({"a": 1}, "array", ()),
        (["a", 1], "string", (1,)),
        (["a", ""], "empty", (1,)),
        (["a", "b", "a"], "twice", (2,)),
        (["\ud83d"], "surrogate", (0,)),
        (["a", "é" * 2001], "4002 bytes; at most 4000", (1,)),
    ],
)
def test_what_is_refused(listed: Any, reason: str, path: tuple[int, ...]) -> None:
    with pytest.raises(Refused, match=reason) as caught:
        choices.grammar(listed, caps=CAPS)
    assert caught.value.path == path


def test_there_is_a_most() -> None:
    assert choices.grammar(["a", "b"], caps=ConstraintsConfig(max_enum_values=2))
    with pytest.raises(Refused, match="3 choices; at most 2"):
        choices.grammar(["a", "b", "c"], caps=ConstraintsConfig(max_enum_values=2))
