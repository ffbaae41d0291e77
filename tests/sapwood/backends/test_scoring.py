import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.backends.protocol import TokenLogprob
from sapwood.backends.scoring import own_tokens
from sapwood.errors import ProgramError


def tokens(*texts):
    return tuple(TokenLogprob(-1.0, hash(text), text) for text in texts)


@pytest.mark.parametrize(
    ("end", "both", "own"),
    [
        (["was", " be", "aut", "i"], ["was", " beautiful"], [" beautiful"]),
        ([" simply", " un", "b"], [" simply", " unbelie", "vably", " good"], [" unbelie", "vably", " good"]),
        (["x", "\n"], ["x", "\n\n\n\n"], ["\n\n\n\n"]),
        (["out", " of"], ["out", " of", " it"], [" it"]),
        (
            ["a", " b"],
            ["a", " ", "bc", "d"],
            ["bc", "d"],
        ),  # the blank is the prompt's alone, also as a token of its own
        (["a", "\ufffd"], ["a", "\ufffd\ufffd", "b"], ["\ufffd\ufffd", "b"]),
        ([], ["a", "b"], ["a", "b"]),
    ],
)
def test_a_token_that_both_make_is_the_choices(end, both, own):
    assert own_tokens(tokens(*both), tokens(*end)) == tokens(*own)


@given(st.data())
def test_however_text_is_cut_all_of_the_choice_is_counted_and_no_token_of_the_prompt_alone(data):
    prompt, choice = data.draw(st.text("ab ", max_size=8)), data.draw(st.text("ab ", min_size=1, max_size=8))
    both = data.draw(cuts(prompt + choice))
    own = own_tokens(tokens(*both), tokens(*data.draw(cuts(prompt))))
    text = "".join(token.text for token in own)
    assert (prompt + choice).endswith(text)
    assert len(choice) <= len(text) < len(choice) + len(own[0].text)


@st.composite
def cuts(draw, text):
    places = sorted(draw(st.sets(st.integers(1, len(text) - 1)))) if len(text) > 1 else []
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True) if start < end]


def test_a_choice_that_a_template_strips():
    with pytest.raises(ProgramError, match="no token of its own"):
        own_tokens(tokens("a"), tokens("a"))
