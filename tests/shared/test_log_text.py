import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.log_text import LONGEST_MESSAGE, exception_text, plain

BIDIRECTIONAL = (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
CONTROL = {*map(chr, (*range(0x20), *range(0x7F, 0xA0), *BIDIRECTIONAL, *range(0xD800, 0xE000)))}


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("a b é 漢 🙂", "a b é 漢 🙂"),
        ('a\r\n{"event": "forged"}', 'a\\r\\n{"event": "forged"}'),
        ("\x1b[2J\x9b2J\x7f\0", "\\x1b[2J\\x9b2J\\x7f\\x00"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\ud800", "\\ud800"),
        ({"\n": ["\t", ("\r", 1)]}, {"\\n": ["\\t", ["\\r", 1]]}),
        (5, 5),
        (None, None),
    ],
)
def test_control_characters_are_escapes(text, fit):
    assert plain(text) == fit
    json.dumps(plain(text)).encode()


@given(st.text(st.one_of(st.characters(), st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]))))
def test_whatever_the_text_there_is_no_control_character_in_it(text):
    fit = plain(text)
    assert not set(fit) & CONTROL
    assert fit == "".join(ascii(letter)[1:-1] if letter in CONTROL else letter for letter in text)


def caught(act):
    with pytest.raises(BaseException) as found:  # noqa: PT011  whatever it is
        act()
    return found.value


def test_an_exception_says_where_and_what_but_no_values():
    def act():
        prompt = "se" + "cret"
        raise ValueError("bad\n" + "x" * 1000, len(prompt))

    text = exception_text(caught(act))
    assert "in act" in text
    assert "ValueError: ('bad\\n" in text
    assert "secret" not in text
    assert len(text.splitlines()[-1]) <= len("ValueError: ") + LONGEST_MESSAGE


def test_what_an_exception_came_from_stands_before_it():
    def act():
        try:
            {}["a\nb"]
        except KeyError as error:
            raise OSError("gone") from error

    text = exception_text(caught(act))
    assert text.index("KeyError: 'a\\nb'") < text.index("which led to:") < text.index("OSError: gone")


def test_what_was_hidden_stays_hidden():
    def act():
        try:
            {}["secret"]
        except KeyError:
            raise OSError("gone") from None

    assert "KeyError" not in exception_text(caught(act))


def test_all_of_a_group_and_an_endless_one_end():
    def recurse():
        return recurse()

    text = exception_text(ExceptionGroup("several", [ValueError("one"), caught(recurse)]))
    assert "ValueError: one" in text
    assert text.count("\n") < 200
