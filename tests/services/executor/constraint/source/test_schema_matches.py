from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_matches import Matches
from services.executor.constraint.source.schema_strings import writable
from shared.config import ConstraintsConfig

PIECES = st.sampled_from(
    ["a", "b", ".", r"\d", r"\W", r"\s", "[^a]", "(a|b)", "a*", "(a+)+", '"', r"\\", "é", "^", "$"]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("".join)
TEXTS = st.text('ab1 \n"\\é٣\u2028', max_size=6)


def refuse(message: str, path: Path) -> None:
    raise Refused(message, path)


@settings(deadline=None, max_examples=300)
@given(PATTERNS, TEXTS)
def test_it_matches_what_python_finds(pattern: str, text: str) -> None:
    assert writable(text)
    refusals: list[str] = []
    found = Matches(ConstraintsConfig(), lambda message, path: refusals.append(message)).search(pattern, text, ())
    if found is None:
        assert "the anchor at position" in refusals[0]
    else:
        assert found == bool(re.search(pattern, text))


def test_the_time_grows_as_the_text_does() -> None:
    matches = Matches(ConstraintsConfig(), refuse)
    assert matches.search("^(a+)+$", "a" * 10_000, ()) is True
    assert matches.search("^(a+)+$", "a" * 10_000 + "!", ()) is False


def test_what_cannot_be_matched_is_refused_with_its_place_or_left_to_the_model() -> None:
    with pytest.raises(Refused) as caught:
        Matches(ConstraintsConfig(), refuse).search("(?=a)", "a", ("pattern",))
    assert caught.value.path == ("pattern",)
    assert Matches(ConstraintsConfig(), lambda message, path: None).search("(?=a)", "a", ()) is None
