"""Stop patterns: whatever the pieces, the outcome is that of the whole text, as `re` would have it."""

import dataclasses
import re

import pytest
import regex
from hypothesis import assume, given
from hypothesis import strategies as st

from services.detokenizer.stop_patterns import MAX_HELD_CHARACTERS, PatternSearch
from services.detokenizer.stop_strings import StopStrings
from shared.stop_pattern import BadPattern, read_stop_pattern


def expected(text, patterns, stops=(), *, include=False):
    """The definition: the first end of a match, and of the matches that end there the longest."""
    for end in range(1, len(text) + 1):
        begins = [text[:end].rfind(stop) for stop in stops if text[:end].endswith(stop)]
        for pattern in patterns:
            compiled = re.compile(pattern)
            begins += [start for start in range(end) if compiled.fullmatch(text[:end], start)][:1]
        if begins:
            return text[: end if include else min(begins)], True
    return text, False


def run(pieces, patterns, stops=(), *, include=False):
    search = StopStrings(stops, [read_stop_pattern(pattern) for pattern in patterns], include=include)
    let_go = []
    for piece in pieces:
        let_go.append(search.push(piece))
        if search.matched is not None:
            return let_go, search.matched
    return [*let_go, search.flush()], None


@pytest.mark.parametrize(
    ("text", "patterns", "shown", "matched"),
    [
        ("It is 42.", [r"\d+"], "It is ", r"\d+"),  # at the first digit: the earliest end
        ("one two and three", ["and|or"], "one two ", "and|or"),
        ("a  \n END", [r"\s+END"], "a", r"\s+END"),
        ("Hi\nHuman: no", ["\n(?:Human|AI):"], "Hi", "\n(?:Human|AI):"),
        ("ENDING END", [r"^END$"], "", "^END$"),  # the text so far counts as all of it
        ("an END", [r"^END"], "an END", None),
        ("an END", [r"\bEND"], "an ", r"\bEND"),
        ("bEND END", [r"\bEND"], "bEND ", r"\bEND"),
        ("one\nEND", [r"(?m)^END"], "one\n", r"(?m)^END"),
        ("The end", ["(?i)END"], "The ", "(?i)END"),
        ("xaaab", ["a+b", "b"], "x", "a+b"),  # complete together: the longest
        ("好吗", ["[一-龥]吗"], "", "[一-龥]吗"),
        ("aab", ["ab?c"], "aab", None),
    ],
)
def test_examples(text, patterns, shown, matched):
    for pieces in ([text], list(text)):
        let_go, found = run(pieces, patterns)
        assert ("".join(let_go), found) == (shown, matched)


def grown(inner):
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "+?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    )


characters = ["a", "b", ".", "[^a]", r"\w", "好", "(?:a|)"]
patterns = st.recursive(st.sampled_from([*characters, "^", r"\b", "$"]), grown, max_leaves=8)
alphabet = st.sampled_from("aaab 好")
pieces_of_text = st.lists(st.text(alphabet, max_size=9), max_size=5)


def readable(some):
    for pattern in some:
        try:
            read_stop_pattern(pattern)
        except BadPattern:
            return False
    return True


@given(
    pieces=pieces_of_text,
    some=st.lists(patterns, min_size=1, max_size=2),
    stops=st.lists(st.text(alphabet, min_size=1, max_size=4), max_size=2),
    include=st.booleans(),
)
def test_any_pieces_come_to_the_same_as_the_whole(pieces, some, stops, include):
    assume(readable(some))
    let_go, matched = run(pieces, some, stops, include=include)
    shown, is_stopped = expected("".join(pieces), some, stops, include=include)
    assert ("".join(let_go), matched is not None) == (shown, is_stopped)


@given(text=st.text(alphabet, max_size=12), pattern=st.recursive(st.sampled_from(characters), grown, max_leaves=5))
def test_text_that_no_match_can_begin_with_is_let_go(text, pattern):
    """What is held is the front of some match, or it would not be held."""
    assume(readable([pattern]))
    search = PatternSearch(read_stop_pattern(pattern))
    for end, char in enumerate(text, start=1):
        if search.step(char):
            return
        if search.matched_chars:
            held = text[end - search.matched_chars : end]
            assert could_begin(pattern, text[: end - len(held)], held)


def could_begin(pattern, before, held):
    """Whether some text behind it makes it a match, in another engine's opinion."""
    return regex.compile(pattern).fullmatch(before + held, len(before), partial=True) is not None


def test_a_match_is_found_however_long_it_is():
    """Its front has been let go by then, and stays; so it is for any pieces."""
    text = "x<" + "a" * 1000 + ">y"
    outcomes = set()
    for pieces in ([text], list(text), [text[:500], text[500:]]):
        let_go, matched = run(pieces, ["<[^>]*>"])
        outcomes.add(("".join(let_go), matched))
    [(shown, matched)] = outcomes
    assert matched == "<[^>]*>"
    assert shown == text[: text.index(">") + 1 - MAX_HELD_CHARACTERS]


def test_what_is_held_is_bounded():
    search = StopStrings((), [read_stop_pattern(".*END")])
    text = "a" * 2000
    assert len("".join(search.push(char) for char in text)) == len(text) - MAX_HELD_CHARACTERS
    assert search.flush() == "a" * MAX_HELD_CHARACTERS


class CountingSteps(set):
    """Counts how often one of them is looked at."""

    looks = 0

    def __iter__(self):
        for step in super().__iter__():
            CountingSteps.looks += 1
            yield step


@pytest.mark.parametrize("pattern", ["(?:a|aa)+b", "(?:a*)*b", "(?:a?){20}a{20}b", ".*.*.*b"])
def test_the_work_for_a_character_is_bounded_by_the_size(pattern):
    """Patterns that take a backtracking engine time without end."""
    automaton = read_stop_pattern(pattern)
    search = PatternSearch(
        dataclasses.replace(
            automaton,
            first=CountingSteps(automaton.first),
            following=tuple(map(CountingSteps, automaton.following)),
        )
    )
    CountingSteps.looks = 0
    for _ in range(300):
        search.step("a")
    assert 300 <= CountingSteps.looks <= 300 * automaton.size
