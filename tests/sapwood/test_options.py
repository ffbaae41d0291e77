import enum
import re

import pytest

from sapwood import ProgramError, function, gen, run, select
from sapwood.options import sampling_of
from tests.support.fake_backend import FakeBackend


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    "option",
    [
        {"stop": 5},
        {"stop": [5]},
        {"regex": re.compile("a")},
        {"temperature": object()},
        {"temperature": float("nan")},
        {"top_p": float("inf")},
        {"max_tokens": "many"},
        {"temperature": "nan"},
        {"logit_bias": {5: "x"}},
    ],
)
def test_what_is_no_value_of_an_option(option):
    with pytest.raises(ProgramError):
        sampling_of(option)


def test_token_ids_may_be_numbers_and_numbers_texts():
    assert sampling_of({"logit_bias": {5: "1"}}).logit_bias == {"5": 1.0}
    assert sampling_of({"max_tokens": "3"}).max_tokens == 3


def test_choices_are_what_they_say():
    backend = FakeBackend(lambda _: "red")

    def program(s):
        s += "a" + gen("x", choices=Color) + select("y", (each for each in [Color.RED, 7]))

    state = run(function(program), backend=backend)
    assert state["y"] == "red"
    assert list(state.scores("y")) == ["red", "7"]
    assert backend.requests[0].sampling.choices == ("red",)
