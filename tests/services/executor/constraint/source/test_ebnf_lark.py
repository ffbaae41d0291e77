"""What the engine itself would take is in the first test; the others are about what is kept from it."""

from __future__ import annotations

import pytest

from services.executor.constraint.source import ebnf
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_bytes import matcher, takes

CAPS = ConstraintsConfig()
ARITHMETIC = """
%import common.INT
%import common (WS_INLINE, DIGIT)
%ignore WS_INLINE  // a < b, @c and "d" are but a comment
?start: sum        # ~ = %json
sum: product
   | sum "+" product
product: atom | product "*" atom
atom: INT | "(" sum ")" | "<|im_end|>@~="i | name
name[lazy]: /~[^;]*;/ // lazy
LIST: DIGIT ~ 1..3 ("," DIGIT){0,2} [";"]
"""


def refusal(source: str) -> str:
    with pytest.raises(Refused) as caught:
        ebnf.grammar(source, caps=CAPS)
    return caught.value.message


@pytest.mark.parametrize("text", ["1+2*(3+ 4)", "~<a>;+1", "<|im_end|>@~="])
def test_a_grammar_goes_through_as_it_is(text: str) -> None:
    assert ebnf.grammar(ARITHMETIC, caps=CAPS) == ARITHMETIC
    assert takes(ARITHMETIC, text)
    assert not takes(ARITHMETIC, text + "+")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("a: <|im_end|>", "<|im_end|>"),
        ("a: <[0-5]>", "<[0-5]>"),
        ("a: <[*]>", "<[*]>"),
        ("a: @other", "@other"),
        ("A: ~/abc/", "negation"),
        ('A: /a/ & ~ "b"', "negation"),
        ('%llguidance {"allow_invalid_utf8": true}', "%llguidance"),
        ('a: %json {"type": "object"}', "%json"),
        ('A: %regex {"substring_chars": "abc"}', "%regex"),
        ('a: %lark { start: "a" }', "%lark"),
        ("%override start: b", "%override"),
        ("%declare A", "%declare"),
        ('a[stop="b"]: /.*/', "options"),
        ('a[suffix="b"]: /.*/', "options"),
        ("a[max_tokens=3]: /.*/", "options"),
        ("a[temperature=0.5]: /.*/", "options"),
        ('a::_: "b" %if true', "parameters"),
        ("A: /a(?P<stop>b)/", "stop"),
        ("A: /a(?<stop>b)/", "stop"),
        ("A: /unfinished", "not a word"),
        ('A: "\0"', "not a word"),
        ("A: /" + "a" * 20_000 + "/", "at most 16384"),
    ],
)
def test_what_reaches_beyond_text_is_refused_with_its_line(line: str, name: str) -> None:
    message = refusal(f'start: "a" // one\n\n{line}\n')
    assert message.startswith("line 3: ")
    assert name in message


def test_there_must_be_a_start() -> None:
    assert "start" in refusal('begin: "start:"')
    assert "start" in refusal("// start: a\n")
    assert "start" in refusal("")


def test_what_the_engine_takes_for_json_is_refused() -> None:
    assert "{" in refusal('\n {"grammars": [{"lark_grammar": "start: <|im_end|>"}]}\nstart: "a"')


def chain(length: int, rule: str, body: str) -> str:
    links = [f"{rule}{number}: " + body.replace("NEXT", f"{rule}{number + 1}") for number in range(length)]
    return "\n".join([f"start: {rule}0", *links, f'{rule}{length}: "z"'])


@pytest.mark.parametrize("rule", ["r", "T"])
def test_what_would_exhaust_the_engines_stack_is_refused(rule: str) -> None:
    assert not matcher(ebnf.grammar(chain(490, rule, '"a" NEXT'), caps=CAPS)).is_error()
    assert "500 deep" in refusal(chain(510, rule, '"a" NEXT'))
    assert "500 deep" in refusal(chain(60, rule, "(" * 9 + "NEXT" + ")" * 9))


def test_many_rules_side_by_side_are_no_stack() -> None:
    rules = [f'r{number}: "{number}" | r{number} r0' for number in range(600)]
    source = "\n".join(["start: " + " | ".join(f"r{number}" for number in range(600)), *rules])
    assert ebnf.grammar(source, caps=CAPS) == source
