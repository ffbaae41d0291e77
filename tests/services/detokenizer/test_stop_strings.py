"""Stop strings: whatever the pieces, the outcome is that of the whole text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.detokenizer.stop_strings import StopStrings


def expected(text, stops, *, include=False):
    """The definition: the first completed match, the longest of those; returns the text let go and the match."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return (text[:end] if include else text[: end - len(stop)]), stop
    return text, None


def run(pieces, stops, *, include=False):
    search = StopStrings(stops, include=include)
    let_go = []
    for piece in pieces:
        let_go.append(search.push(piece))
        if search.matched is not None:
            return let_go, search.matched
    return [*let_go, search.flush()], None


@pytest.mark.parametrize(
    ("text", "stops", "shown", "matched"),
    [
        ("abc", (), "abc", None),
        ("abc", ("",), "abc", None),
        ("hello world", ("o w",), "hell", "o w"),
        ("abcabd", ("abd",), "abc", "abd"),
        ("aaab", ("aab",), "a", "aab"),
        ("xabcy", ("abc", "b"), "xa", "b"),  # the shorter one is complete first
        ("xabcy", ("bc", "abc"), "x", "abc"),  # complete together: nothing of the longer one has been shown
        ("one two one", ("one",), "", "one"),
        ("the end", ("end", "the end"), "", "the end"),
        ("no\n\nmore", ("\n\n",), "no", "\n\n"),
        ("你好吗", ("好",), "你", "好"),
        ("ab", ("abc",), "ab", None),  # held to the end, then shown
        ("aabaaabaaac", ("aabaaac",), "aaba", "aabaaac"),  # after a miss, the next longest beginning still counts
    ],
)
def test_examples(text, stops, shown, matched):
    for pieces in ([text], list(text)):
        let_go, found = run(pieces, stops)
        assert ("".join(let_go), found) == (shown, matched)


alphabet = st.sampled_from("aaab好")
words = st.text(alphabet, max_size=8)


@given(pieces=st.lists(st.text(alphabet, max_size=9)), stops=st.lists(words, max_size=4), include=st.booleans())
def test_any_pieces_come_to_the_same_as_the_whole(pieces, stops, include):
    let_go, matched = run(pieces, stops, include=include)
    assert ("".join(let_go), matched) == expected("".join(pieces), stops, include=include)


@given(pieces=st.lists(st.text(alphabet, max_size=9)), stops=st.lists(words, max_size=4))
def test_only_what_could_become_a_stop_string_is_held(pieces, stops):
    search = StopStrings(stops)
    taken = let_go = ""
    for piece in pieces:
        taken += piece
        let_go += search.push(piece)
        if search.matched is not None:
            return
        held = taken[len(let_go) :]
        assert let_go + held == taken
        prefixes = [stop[:size] for stop in stops for size in range(1, len(stop))]
        longest = max((prefix for prefix in prefixes if taken.endswith(prefix)), key=len, default="")
        assert held == longest


@given(stops=st.lists(words.filter(bool), min_size=1, max_size=4), before=words, after=words)
def test_nothing_of_a_stop_string_is_shown(stops, before, after):
    let_go, matched = run(list(before + stops[0] + after), stops)
    shown = "".join(let_go)
    assert matched is not None
    assert not any(stop in shown for stop in stops)
    assert (before + stops[0] + after).startswith(shown + matched)


class CountingText(str):
    """A pattern that counts how often a character of it is looked at."""

    looks = 0

    def __getitem__(self, key):
        CountingText.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("text", ["a" * 4000, "ab" * 2000, ("a" * 99 + "c") * 40])
def test_the_work_is_linear_in_the_text_even_for_an_almost_matching_one(text):
    CountingText.looks = 0
    search = StopStrings([CountingText("a" * 100 + "b")])
    building = CountingText.looks
    for char in text:
        search.push(char)
    assert CountingText.looks - building <= 4 * len(text)
