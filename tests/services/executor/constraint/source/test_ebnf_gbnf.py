"""GBNF: without recursion it is a regular expression, so `re` is the oracle; with it, what a matcher of GBNF takes."""

from __future__ import annotations

import json
import re
from unittest.mock import Mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from services.executor.constraint.source import ebnf, ebnf_gbnf
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source import engine_walks, gbnf_matcher
from tests.services.executor.constraint.source.engine_bytes import byte_tokenizer, takes
from tests.services.executor.constraint.source.gbnf_samples import JSON, SAMPLES

CAPS = ConstraintsConfig()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(st.sampled_from('ab"\\\n/é龥😀'), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/", "é"]), inner, max_size=3),
    max_leaves=8,
)


def grammar(source: str) -> str:
    return ebnf.grammar(source, caps=CAPS)


def refusal(source: str) -> str:
    with pytest.raises(Refused) as caught:
        grammar(source)
    return caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        'root ::= "a" root',
        'root ::= a | "x" b\na ::= "y" b\nb ::= "z" a+',
        "root ::= root",
        'root ::= ("a" root){1,2} | "b" root{2}',
    ],
)
def test_what_never_ends_is_told_so(source: str) -> None:
    assert refusal(source).startswith("no output can ever end")


@pytest.mark.parametrize("step", [1, -1])
def test_rules_that_refer_to_one_another_in_turn_are_gone_through_in_a_few_rounds(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Mock(wraps=ebnf_gbnf._ends)
    monkeypatch.setattr(ebnf_gbnf, "_ends", ends)
    rules = [f"r{number} ::= r{number + 1}" for number in range(50)] + ['r50 ::= "x"']
    assert grammar("\n".join(["root ::= r0", *rules][::step]))
    assert ends.call_count < 6 * len(rules)


@pytest.mark.parametrize("repeat", ["?", "*", "{0,2}", "{0}"])
def test_what_may_be_left_out_need_not_end(repeat: str) -> None:
    assert grammar(f'root ::= "a" endless{repeat}\nendless ::= "b" endless')


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.booleans(), st.integers(0, 200))
@settings(deadline=None, max_examples=100)
def test_json_is_taken_and_nothing_else(value: dict[str, object], ascii_only: bool, cut: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    lark = grammar(JSON)
    assert takes(lark, text.replace("\x7f", ""))
    assert not takes(lark, text[: min(cut, len(text) - 1)])


CLOSERS = (*engine_walks.CLOSERS, "\n", "=", ";", ")")
LETTERS = "ab-]^/\\\"'[ é😀"
LITERALS = st.text(st.sampled_from(LETTERS), max_size=2)
PAIRS = st.one_of(
    LITERALS.map(lambda text: ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"', f"(?:{re.escape(text)})")),
    st.sampled_from(
        [
            (".", "(?s:.)"),
            ("[ab-]", "[ab-]"),
            (r"[^\]\\a]", r"[^\]\\a]"),
            (r"[\^\-é-\U0001F600]", r"[\^\-é-\U0001F600]"),
            (r'"\x41\u00e9\n"', r"A\u00e9\n"),
            ("sub-rule", "(?:ab?|é)"),
        ]
    ),
)
BOTH = st.recursive(
    PAIRS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(
            lambda many: (" ".join(one for one, _ in many), "".join(f"(?:{one})" for _, one in many))
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda many: (f"({' | '.join(one for one, _ in many)})", f"(?:{'|'.join(one for _, one in many)})")
        ),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"])).map(
            lambda one: (f"({one[0][0]}){one[1]}", f"(?:{one[0][1]}){one[1]}")
        ),
    ),
    max_leaves=6,
)


@given(BOTH, st.lists(st.sampled_from(LETTERS + "A\n"), max_size=6).map("".join))
@settings(deadline=None, max_examples=300)
def test_without_recursion_it_is_a_regular_expression(both: tuple[str, str], text: str) -> None:
    source = f'root ::= {both[0]}\nsub-rule ::= "a" "b"? | "é"'
    lark = grammar(source)
    # The engine cannot compile some alternatives of overlapping sets: it panics, and the grammar is refused.
    assume(not LLMatcher(byte_tokenizer(), lark, log_level=0).get_error().startswith("panic:"))
    assert takes(lark, text) == (re.fullmatch(both[1], text) is not None)


# A grammar that comes back to itself, and what it says is ambiguous in many ways.
RECURSIVE = 'root ::= {0} | [a-é] root {1} | root-2\nroot-2 ::= ({1} root)? {0}\nsub-rule ::= "a" "b"? | "é"'


@given(BOTH, BOTH, st.lists(st.sampled_from(LETTERS + "A\n"), max_size=6).map("".join))
@settings(deadline=None, max_examples=300)
def test_with_recursion_it_is_what_it_says(one: tuple[str, str], other: tuple[str, str], text: str) -> None:
    assume(re.match(other[1], "") is None)  # else a rule begins with itself
    source = RECURSIVE.format(one[0], other[0])
    assert takes(grammar(source), text) == gbnf_matcher.takes(source, text)


QUOTED = """
root ::= "(" root ")" root | [ab] root | quoted root | ""
quoted ::= "<" ({0})* {1} [^a<] [ab]*
sub-rule ::= "a" "b"? | "é"
"""


@given(BOTH, BOTH, st.lists(st.sampled_from("<<>>)((ab-é"), max_size=8).map("".join))
@settings(deadline=None, max_examples=300)
def test_what_stands_between_quotes_is_what_it_says(one: tuple[str, str], other: tuple[str, str], text: str) -> None:
    source = QUOTED.format(one[0], other[0])
    assert takes(grammar(source), text) == gbnf_matcher.takes(source, text)


@pytest.mark.parametrize(
    ("rules", "is_one"),
    [
        ('"<" [^>]* ">"', True),
        ('"<" ([^>\\\\] | "\\\\" .)* ">" [ab]*', True),
        ('"<" letter{2,3} ">"', True),
        ('"<" .* ">"', False),
        ('"<" letter* [b-c]', False),
        ('"<" [ab]* ">" | "<" "b"', False),
        ('"<" root? ">"', False),
    ],
)
def test_what_is_delimited_is_one_terminal(rules: str, is_one: bool) -> None:
    lark = grammar(f'root ::= "(" root ")" | {rules}\nletter ::= [ab]')
    assert ("/(\\x{3c}" in lark) == is_one


def test_what_is_written_out_of_a_part_is_bounded() -> None:
    empty = [f"r{number} ::= r{number + 1} r{number + 1}" for number in range(40)]
    source = "\n".join(['root ::= "<" r0* ">" | "(" root ")"', *empty, 'r40 ::= ""'])
    assert "/(" not in grammar(source)


@pytest.mark.parametrize("name", SAMPLES)
def test_all_of_llama_cpps_samples_can_be_walked_to_their_end(name: str) -> None:
    compiled = engine_walks.matcher(grammar(SAMPLES[name]))
    walks = [engine_walks.walk(compiled, seed, 80, CLOSERS) for seed in range(15)]
    texts = [text for text in walks if text is not None]
    assert texts
    assert [text for text in texts if not gbnf_matcher.takes(SAMPLES[name], text)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("arithmetic", "a=1\n"),
        ("arithmetic", "(a1 +2)*b \n= \n3\n\nx=y\n"),
        ("c", "int main(int a){return a+1;if(a<=b){x =  f(1, -y);}/* **x */// no\n}"),
        ("chess", "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd8=Q#\n"),
        ("english", "It's (a) test!\nYes"),
        ("japanese", "ここ カ、漢字"),
        ("json_arr", '[\n{"a": [1.5e3, "\\u00e9\\n", {}]},\ntrue]'),
        ("list", "- one\n- t w o\n"),
    ],
)
def test_what_llama_cpps_samples_take(name: str, text: str) -> None:
    lark = grammar(SAMPLES[name])
    for end in range(1, len(text) + 1):
        assert takes(lark, text[:end]) == gbnf_matcher.takes(SAMPLES[name], text[:end]), text[:end]
    assert takes(lark, text)


def test_recursion() -> None:
    lark = grammar('root ::= "(" root* ")" | [0-9]+ (("+" | "-") root)?')
    assert all(takes(lark, text) for text in ("()", "((12)(1+2-3))", "7"))
    assert not any(takes(lark, text) for text in ("(", "1+", "(()", "a", ""))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('a ::= "x"', "name root"),
        ('root ::= "x"\nroot ::= "y"', "line 2: the rule root is there twice"),
        ('root ::= "x"\n  other', "line 2: there is no rule of the name other"),
        ('root ::= "x" (\n"y"', "line 2: expected ), not the end"),
        ('root ::= "x" )', "line 1: expected name"),
        ("root ::= *", "line 1: unexpected"),
        ('root ::= "a"*+', "line 1: a repeat of a repeat"),
        ('root ::= "a"{3,2}', "wrong way round"),
        ('root ::= "a"{9999999999}', "too large"),
        ('root ::= "x', "line 1: not a word"),
        ("root ::= [a", "line 1: not a word"),
        ("root ::= [b-a]", "line 1: the range b-a"),
        ("root ::= []", "no character"),
        (r'root ::= "\q"', "escape"),
        (r'root ::= "\ud800"', "not a character"),
        (r'root ::= "\UFFFFFFFF"', "not a character"),
        ("root ::= <|im_end|>", "line 1: not a word"),
        ("root ::= " + "(" * 70 + '"a"' + ")" * 70, "nested too deeply"),
        ("root ::= " + "(" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_refused(source: str, reason: str) -> None:
    assert reason in refusal(source)


def test_a_long_chain_of_rules_is_refused() -> None:
    links = [f'r{number} ::= "a" r{number + 1}' for number in range(1000)]
    assert "500 deep" in refusal("\n".join(["root ::= r0", *links, 'r1000 ::= "b"']))


@given(st.text(alphabet='ro\n:=|()[]{}"\\*+?.,019-^#<> x', max_size=40))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_grammar_or_refused(text: str) -> None:
    try:
        lark = grammar(f"root ::= {text}")
    except Refused:
        return
    assert lark.startswith("start: ")
