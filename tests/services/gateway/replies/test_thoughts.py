import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.replies.thoughts import Said, Thoughts
from shared.reasoning_format import ReasoningFormat

CLOSED, OPENED = ReasoningFormat(), ReasoningFormat(is_opened=True)


def split(pieces, style=CLOSED):
    thoughts = Thoughts(style)
    said = [*map(thoughts.feed, pieces), thoughts.finish()]
    return Said("".join(thought for thought, _ in said), "".join(answer for _, answer in said))


@pytest.mark.parametrize(
    ("text", "style", "said"),
    [
        ("<think>\nHm.\n\nWell.\n</think>\n\nYes. ", CLOSED, ("Hm.\n\nWell.", "Yes. ")),
        ("\n <think>Hm.</think>Yes.", CLOSED, ("Hm.", "Yes.")),
        ("<think>\n\n</think>\n\nYes.", CLOSED, ("", "Yes.")),
        ("<think>Hm.", CLOSED, ("Hm.", "")),
        ("<think>a </b> </thin", CLOSED, ("a </b> </thin", "")),
        (" Yes. <think>no</think>\n", CLOSED, ("", " Yes. <think>no</think>\n")),
        ("<thin", CLOSED, ("", "<thin")),
        (" \n", CLOSED, ("", " \n")),
        ("", CLOSED, ("", "")),
        ("\nHm.\n</think>\n\nYes.", OPENED, ("Hm.", "Yes.")),
        ("<think>\nHm.\n</think>\n\nYes.", OPENED, ("Hm.", "Yes.")),
        ("Hm.", OPENED, ("Hm.", "")),
        ("<thi", OPENED, ("<thi", "")),
        ("Hm.</think>Yes.</think> <think>", OPENED, ("Hm.", "Yes.</think> <think>")),
    ],
)
def test_a_thought_and_an_answer(text, style, said):
    assert split([text], style) == said


def test_what_is_sure_is_said_at_once():
    thoughts = Thoughts(CLOSED)
    pieces = ["<thi", "nk>\n", "Hm ", "<", "/th", "ink", ">\n", "\nYes", "."]
    assert [thoughts.feed(piece) for piece in pieces] == [
        ("", ""),
        ("", ""),
        ("Hm", ""),
        ("", ""),
        ("", ""),
        ("", ""),
        ("", ""),
        ("", "Yes"),
        ("", "."),
    ]


texts = st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think", ">", " ", "\n", "a", "é"])).map("".join)


@given(texts, st.lists(st.integers(0, 60)), st.sampled_from([CLOSED, OPENED]))
def test_cuts_change_nothing(text, cuts, style):
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(places)]
    assert split(pieces, style) == split([text], style) == split(list(text), style)


@given(st.text("ab <>/\n"), st.text("ab <>/\n"))
def test_nothing_is_lost_but_tags_and_spaces_around_them(thought, answer):
    said = split(list(f"<think>{thought}</think>{answer}"))
    assert said == (thought.strip(), answer.lstrip())
