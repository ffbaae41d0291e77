"""What clients' patterns are taken for, and what is refused. How they match is tested at the detokenizer."""

import contextlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.pattern_characters import CharacterSet
from shared.stop_pattern import MAX_SIZE, BadPattern, read_stop_pattern, read_stop_patterns


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "1 to 1024 characters"),
        ("a" * 1025, "1 to 1024 characters"),
        ("(", "unterminated subpattern at position 0"),
        ("[a-z", "unterminated character set at position 0"),
        ("a**", "multiple repeat"),
        ("(?aL)x", "flags"),
        ("a*", "empty text"),
        ("^", "empty text"),
        (r"\b|a", "empty text"),
        ("(?:){9}", "empty text"),
        ("(?=a)b", "look-ahead, (?=, at position 0 is not supported: it is not regular"),
        ("x(?<!a)b", "look-behind, (?<!, at position 1"),
        (r"(a)\1", r"a backreference, \1, at position 3 is not supported: it is not regular"),
        ("(?>a)b", "an atomic group, (?>, at position 0"),
        ("a++", "a possessive repeat, ++, at position 1"),
        ("a{1001}", "too large"),
        ("(?:a{99}){99}", "too large"),
        ("a{4000000000}", "too large"),
        ("a{9999999999}", "repetition number is too large"),
        ("(?:a?){200}b", "too large"),
        ("(" * 50 + "a" + ")" * 50, "nested too deeply"),
        ("(" * 500 + "a" + ")" * 500, "nested too deeply"),
    ],
)
def test_what_cannot_be_served_is_refused(pattern, problem):
    with pytest.raises(BadPattern, match=re.escape(problem)):
        read_stop_pattern(pattern)


def test_what_is_too_large_together_is_refused():
    patterns = [f"{letter}{{200}}" for letter in "abc"]
    assert sum(automaton.size for automaton in read_stop_patterns(patterns[:2])) <= MAX_SIZE
    with pytest.raises(BadPattern, match="too large together"):
        read_stop_patterns(patterns)


def test_repeats_of_nothing_take_no_time():
    assert read_stop_pattern("(?:(?:^){1000000}){1000000}a").size == 3


@given(st.text(max_size=30))
@example("(?:a|b{2,}?)+[^\\d]$")
def test_any_text_is_read_or_refused(pattern):
    with contextlib.suppress(BadPattern):
        assert read_stop_pattern(pattern).size > 0


PLACES = [
    "a",
    ".",
    "[^a]",
    "[a-d]",
    "[^a-dX]",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"[\d_]",
    r"[^\sé]",
    "é",
    "[ß-ÿ]",
]
FLAGS = ["", "(?i)", "(?a)", "(?s)", "(?ai)"]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("place", PLACES)
@given(char=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aAbé1٣_ \n\tkK")))
def test_a_place_takes_the_characters_that_re_takes(flags, place, char):
    [characters] = read_stop_pattern(flags + place).sets
    assert isinstance(characters, CharacterSet)
    assert (char in characters) == (re.fullmatch(flags + place, char) is not None)
