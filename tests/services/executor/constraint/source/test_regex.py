"""`re.fullmatch` is the oracle: the engine takes a text exactly if it matches, as far as the docs promise."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.regex import parser, to_rust
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_bytes import takes

CAPS = ConstraintsConfig()
ALPHABET = "aAbkKsSzZ019_-]^[{}/\\\"'#.$ \t\n\r\0éÉſßKİıΣσς٣龥😀\x1c\x85\u2003\U0010ffff☃{}"
CATEGORY = re.compile(r"\\[dDwWsS]")
LONGEST = 12  # so that Python's own matcher comes to an end


def accepts(pattern: str, text: str) -> bool:
    return takes(f"start: /{to_rust(pattern, CAPS)}/", text)


def refusal(pattern: str, caps: ConstraintsConfig = CAPS) -> str:
    with pytest.raises(Refused) as caught:
        to_rust(pattern, caps)
    return caught.value.message


# --- random patterns ------------------------------------------------------------------------------------------------

CHARACTERS = st.sampled_from(ALPHABET)
LITERALS = CHARACTERS.map(re.escape)
ESCAPES = st.sampled_from(
    [r"\x41", r"\u00e9", r"\U0001F600", r"\n", r"\t", r"\0", r"\141", r"\\", r"\N{SNOWMAN}", "{", "}"]
)
CATEGORIES = st.sampled_from([r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"])
RANGES = st.tuples(CHARACTERS, CHARACTERS).map(lambda ends: "-".join(re.escape(one) for one in sorted(ends)))
MEMBERS = st.lists(st.one_of(LITERALS, RANGES, CATEGORIES), min_size=1, max_size=4).map("".join)
SETS = st.tuples(st.sampled_from(["", "^"]), MEMBERS).map(lambda one: f"[{one[0]}{one[1]}]")
SINGLE = st.one_of(LITERALS, LITERALS, ESCAPES, CATEGORIES, SETS, st.just("."))
GROUPS = st.sampled_from(["(", "(?:", "(?P<name>", "(?i:", "(?s:", "(?-i:", "(?x: ", "(?a:", "(?u:", "(?ims:"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{,2}", "{1,3}", "{2,}", "{0}", "*?", "+?", "??", "{1,2}?"])
FLAGS = st.sampled_from(["", "", "", "(?i)", "(?s)", "(?a)", "(?u)", "(?ia)", "(?iu)", "(?x)", "(?m)"])


def composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = st.tuples(GROUPS, inner).map(lambda one: f"{one[0]}{one[1]})")
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda many: f"(?:{'|'.join(many)})"),
        grouped,
        st.tuples(grouped | SINGLE, REPEATS).map("".join),
    )


BODIES = st.recursive(SINGLE, composed, max_leaves=8)
PATTERNS = st.tuples(FLAGS, st.sampled_from(["", "^", r"\A"]), BODIES, st.sampled_from(["", "$", r"\Z"])).map("".join)


def sampled(draw: st.DrawFn, items: Any) -> str:
    """A text that these items of Python's syntax tree match, letter cases apart."""
    text = ""
    for code, value in items:
        match code.name:
            case "LITERAL":
                text += chr(value)
            case "NOT_LITERAL" | "ANY":
                text += draw(CHARACTERS)
            case "IN":
                text += draw(st.sampled_from(re.findall(f"[{''.join(map(in_brackets, value))}]", ALPHABET) or [""]))
            case "BRANCH":
                text += sampled(draw, draw(st.sampled_from(value[1])))
            case "SUBPATTERN":
                text += sampled(draw, value[3])
            case "MAX_REPEAT" | "MIN_REPEAT":
                times = draw(st.integers(value[0], min(value[1], value[0] + 2)))
                text += "".join(sampled(draw, value[2]) for _ in range(times))
    return text


def in_brackets(item: Any) -> str:
    match item[0].name, item[1]:
        case "NEGATE", _:
            return "^"
        case "LITERAL", point:
            return rf"\U{point:08x}"
        case "RANGE", (first, last):
            return rf"\U{first:08x}-\U{last:08x}"
        case _, category:
            letter = category.name.removeprefix("CATEGORY_").removeprefix("NOT_")[0]
            return f"\\{letter if 'NOT' in category.name else letter.lower()}"


@st.composite
def texts(draw: st.DrawFn, pattern: str) -> str:
    """One that matches, or nearly."""
    text = sampled(draw, parser.parse(pattern))[:LONGEST]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(CHARACTERS | st.just("")) + text[at + draw(st.integers(0, 1)) :]
    return text


def reads_alike(text: str) -> bool:
    """Whether categories take each character with re.ASCII if and only if they do without."""
    return all(
        (re.match(one, each) is None) == (re.match(one, each, re.ASCII) is None)
        for each in text
        for one in (r"\d", r"\w", r"\s")
    )


@given(st.data())
@settings(deadline=None, max_examples=400)
def test_the_engine_takes_what_python_matches(data: st.DataObject) -> None:
    pattern = data.draw(PATTERNS)
    try:
        compiled = re.compile(pattern)
        grammar = f"start: /{to_rust(pattern, CAPS)}/"
    except (re.error, Refused, RecursionError):
        assume(False)
    text = data.draw(texts(pattern))
    matches = compiled.fullmatch(text) is not None
    if takes(grammar, text):
        assert matches
    elif matches:
        narrowed = CATEGORY.search(pattern) is not None and not pattern.startswith(("(?u)", "(?iu)", "(?a)", "(?ia)"))
        assert narrowed
        assert not reads_alike(text)


@given(st.text(alphabet=ALPHABET + "()[]{}*+?|\\^$.:=!<>P#-,bBdDwWAZ123imsxauL", max_size=30))
@example("(?x)a # (?=\n")
@example("a{" + "9" * 5000 + "}")
@example("(" * 3000)
@example("[" * 300)
@example("(?:a" * 64 + ")" * 64)
@settings(deadline=None, max_examples=600)
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    try:
        written = to_rust(pattern, CAPS)
    except Refused:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        re.compile(pattern)
    assert written.isascii()
    assert not set(written) & set('/"\n')


# --- what is promised -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "taken", "not_taken"),
    [
        (
            '{"carrier": "[^"]+", "eta": "[^"]+"}',
            ['{"carrier": "DHL", "eta": "5 p.m./\n"}'],
            ['{"carrier": "", "eta": "1"}'],
        ),
        (r"\d+\w\s", ["12a ", "3_\n"], ["٣a ", "3é ", "3a\u2003"]),
        (r"(?u)\d\w\s", ["٣é\u2003", "1a "], ["aaa"]),
        (r"\W", ["-", "😀"], ["é", "a", "龥"]),
        (r"[^\d]\D\S", ["aa-", "éé龥"], ["٣aa", "a٣a", "aa\u2003"]),
        (r"(?a)\W", ["é", "-"], ["a"]),
        ("[一-龥]+", ["中文"], ["a", "", "😀"]),
        ("[😀-😎]{2}", ["😀😎"], ["😀", "😀a"]),
        ("é😀", ["é😀"], ["é"]),
        (".", ["\r", "\0", "😀"], ["\n", ""]),
        ("(?s).", ["\n"], [""]),
        ("(?i)straße", ["STRAẞE", "ſtraße"], ["strasse"]),
        ("a{,2}b", ["b", "aab"], ["aaab", "a{,2}b"]),
        ("x{}{1", ["x{}{1"], ["x"]),
        ("(?x) a b [ ] # comment (?=\n c", ["ab c"], ["a b c"]),
        ("^(?:^a|b$)?$", ["a", "b", ""], ["ab"]),
        ("a|ab|abc", ["a", "ab", "abc"], ["b", "abcd"]),
        (r"a/b\n\0\"", ['a/b\n\0"'], []),
        (r"a|[^\s\S]b", ["a"], ["b"]),
        (r"[\ud800-\ue000]", ["\ue000"], ["\ud7ff"]),
    ],
)
def test_meaning(pattern: str, taken: list[str], not_taken: list[str]) -> None:
    assert [text for text in taken if not accepts(pattern, text)] == []
    assert [text for text in not_taken if accepts(pattern, text)] == []


@pytest.mark.parametrize(
    ("pattern", "name", "position"),
    [
        ("ab(?=c)", "look-ahead", 2),
        ("(?!c)", "look-ahead", 0),
        (r"\((?<=a)b", "look-behind", 2),
        ("[(?=](?<!a)b", "look-behind", 5),
        (r"(a)\\\1", "backreference", 5),
        ("(?P<n>a)(?P=n)", "backreference", 8),
        ("(a)?(?(1)b|c)", "conditional", 4),
        (r"[\b]\b", "word boundary", 4),
        (r"\101\B", "word boundary", 4),
        ("(?>a)", "atomic", 0),
        ("a{2}{b}c*+", "possessive", 8),
        ("(?x)a # (?=b)\n(?=c)", "look-ahead", 14),
        ("(?x:a # (?=b)\n)#(?=c)", "look-ahead", 16),
        ("(?#(?=)(?=a)", "look-ahead", 7),
        ("a^b", "anchor", 1),
        (r"a\Ab", "anchor", 1),
        ("a$b", "anchor", 1),
        (r"(?:^a|^b)[$]c(\Z)d", "anchor", 14),
        ("(^a)*", "anchor", 1),
        ("(?m)a\n^b", "anchor", 6),
        ("(a", "unterminated", 0),
        ("a[b-a]", "bad character range", 2),
        ("a**", "multiple repeat", 2),
        ("a(?L)", "'L' flag", 4),
    ],
)
def test_what_is_refused_is_named_with_its_position(pattern: str, name: str, position: int) -> None:
    message = refusal(pattern)
    assert name in message
    assert re.search(rf"at position {position}\b", message), message


@pytest.mark.parametrize("pattern", ["((a{0,100}){0,100}){0,100}b", "(?:a{200}){,100}", "(?:(?:a{101,})*){100}"])
def test_nested_repeats_are_multiplied(pattern: str) -> None:
    assert "multiply" in refusal(pattern)
    assert to_rust(pattern, ConstraintsConfig(max_repeat=1_000_000))


@pytest.mark.parametrize("pattern", ["a{99999999999}", "a{" + "9" * 5000 + "}"])
def test_a_repeat_beyond_all_bounds_is_refused(pattern: str) -> None:
    assert "too large" in refusal(pattern)


def test_length_counts_in_bytes() -> None:
    assert "4 bytes; at most 3" in refusal("😀", ConstraintsConfig(max_pattern_bytes=3))
    assert to_rust("😀", ConstraintsConfig(max_pattern_bytes=4))


def test_depth_of_groups() -> None:
    assert "3 deep; at most 2" in refusal("(((a)))", ConstraintsConfig(max_depth=2))
    assert to_rust("((a))[((((]", ConstraintsConfig(max_depth=2)) == r"a\x{28}"


def nested(depth: int) -> str:
    return "(?:" * depth + "a" + "c|d)*" * depth


def test_what_would_be_too_deep_for_the_engine_is_refused() -> None:
    assert accepts(nested(59), "d")
    assert "too deep" in refusal(nested(60))


def test_no_text_and_only_the_empty_text_are_refused() -> None:
    assert "no text" in refusal(r"a[^\s\S]")
    assert "no text" in refusal(r"\ud800")
    for pattern in ("", "(?:)", "^$", "a{0}", r"(?:[^\s\S])*"):
        assert "only the empty text" in refusal(pattern)


def test_sets_that_are_large_when_written_out_are_refused() -> None:
    assert "character sets" in refusal(r"\W" * 100)
    assert "character sets" not in to_rust(r"\w\d\s" * 1000, CAPS)


def test_contradicting_flags_are_refused() -> None:
    assert "incompatible" in refusal("(?a)(?u)a")


def test_python_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_rust("[[a]", CAPS)
