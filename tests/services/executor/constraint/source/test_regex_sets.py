"""`re` itself is the oracle of what a set takes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.constraint.source import regex_sets
from services.executor.constraint.source.regex_sets import ALL, END, Ranges
from tests.services.executor.constraint.source.engine_bytes import takes

TEXT = "".join(chr(point) for start, end in ALL for point in range(start, end))
POINTS = st.one_of(st.integers(0, 300), st.integers(0xD700, 0xE100), st.integers(0, END - 1), st.just(END - 1))


def members(ranges: Ranges) -> set[int]:
    return {point for start, end in ranges for point in range(start, end)}


@st.composite
def sets(draw: st.DrawFn) -> Ranges:
    starts = draw(st.lists(st.tuples(POINTS, st.integers(1, 40)), max_size=8))
    return regex_sets.intersection(regex_sets.union((start, min(start + size, END)) for start, size in starts), ALL)


@given(sets(), sets())
@settings(deadline=None, max_examples=100)
def test_sets_are_those_of_their_members(first: Ranges, second: Ranges) -> None:
    assert members(regex_sets.union(first, second)) == members(first) | members(second)
    assert members(regex_sets.intersection(first, second)) == members(first) & members(second)
    assert regex_sets.complement(regex_sets.complement(first)) == first
    for (_, end), (start, _) in pairwise(first):
        assert end < start


def test_a_set_and_its_complement_are_all_characters_once() -> None:
    ranges: Ranges = ((0, 5), (0xD000, 0xD800), (0xE000, 0xE001), (0x10FFFE, END))
    others = regex_sets.complement(ranges)
    assert regex_sets.union(ranges, others) == ALL
    assert regex_sets.intersection(ranges, others) == ()


@pytest.mark.parametrize("letter", "dDwWsS")
@pytest.mark.parametrize("unicode", [True, False])
def test_categories_are_those_of_re(letter: str, unicode: bool) -> None:
    spoken = "".join(re.findall(rf"\{letter}", TEXT, 0 if unicode else re.ASCII))
    assert members(regex_sets.category(letter, unicode=unicode)) == set(map(ord, spoken))


@pytest.mark.parametrize("unicode", [True, False])
def test_each_cased_character_folds_as_in_re(unicode: bool) -> None:
    flags = re.IGNORECASE | (0 if unicode else re.ASCII)
    cased = regex_sets._cased()
    for letter in cased:
        point = ord(letter)
        expected = {ord(one) for one in re.findall(re.escape(letter), cased, flags)}
        assert members(regex_sets.folded(((point, point + 1),), unicode=unicode)) == expected, letter


def test_no_other_character_folds() -> None:
    cased = regex_sets._cased()
    assert "".join(re.findall(f"(?i)[{cased}]", TEXT)) == cased
    other = regex_sets.complement(regex_sets.union((ord(one), ord(one) + 1) for one in cased))
    ranges = "".join(rf"\U{start:08x}-\U{end - 1:08x}" for start, end in other)
    assert not set(re.findall(f"(?i)[{ranges}]", TEXT)) & set(cased)


@pytest.mark.parametrize("letter", "dDwWsS")
def test_categories_hold_both_cases_or_none(letter: str) -> None:
    assert re.findall(rf"(?i)[{letter}]".replace("[", "[\\"), TEXT) == re.findall(rf"\{letter}", TEXT)


@given(sets().filter(bool), st.data())
@settings(deadline=None, max_examples=100)
def test_what_is_written_is_read_as_the_same_set(ranges: Ranges, data: st.DataObject) -> None:
    grammar = f"start: /{regex_sets.written(ranges)}/"
    edges = {point + step for one in ranges for point in one for step in (-1, 0)}
    points = data.draw(st.lists(st.sampled_from(sorted(edges)) | POINTS, max_size=10))
    inside = members(ranges)
    for point in points:
        if 0 <= point < END and not 0xD800 <= point < 0xE000:
            assert takes(grammar, chr(point)) == (point in inside), hex(point)


@pytest.mark.parametrize("ranges", [ALL, regex_sets.NOT_NEWLINE, ((47, 48),), ((10, 11), (0x1F600, 0x1F650))])
def test_what_is_written_fits_between_slashes(ranges: Ranges) -> None:
    written = regex_sets.written(ranges)
    assert written.isascii()
    assert written.isprintable()
    assert not set(written) & set("/\"'")
