"""Options of a run, and what becomes of them where a generation has its own."""

import pytest

from sapwood import ProgramError, function, gen
from tests.support.fake_backend import FakeBackend


def asked(own, defaults, answer="1"):
    backend = FakeBackend(lambda _request: answer)
    function(lambda s: s.__iadd__("a" + gen("x", **own))).run(backend=backend, **defaults)
    return backend.requests[0]


@pytest.mark.parametrize(
    ("option", "own", "default", "became"),
    [
        ("n", 1, 2, 1),
        ("stop", [], "\n", ()),
        ("stop", None, "\n", ("\n",)),
        ("ignore_eos", False, True, False),
        ("temperature", 0, 1, 0),
    ],
)
def test_its_own_wins_also_where_it_is_what_holds_without_any(option, own, default, became):
    assert getattr(asked({option: own}, {option: default}).sampling, option) == became


def test_log_probabilities_of_all_generations():
    request = asked({}, {"return_logprob": True, "top_logprobs_num": 2, "logprob_start_len": 3})
    assert (request.logprobs, request.top_logprobs, request.prompt_logprobs_from) == (True, 2, 3)
    request = asked({"return_logprob": False}, {"top_logprobs_num": 2})
    assert (request.logprobs, request.top_logprobs) == (False, 0)
    assert asked({"top_logprobs_num": 2}, {}).logprobs


@pytest.mark.parametrize("own", [{"choices": ["1", "2"]}, {"dtype": int}, {"json_schema": '{"type": "integer"}'}])
def test_its_own_constraint_stands_alone(own):
    sampling = asked(own, {"regex": "[a-z]"}).sampling
    assert sampling.regex != "[a-z]"
    assert sum(each is not None for each in (sampling.regex, sampling.json_schema, sampling.choices)) == 1
    assert asked({}, {"regex": "[a-z]"}).sampling.regex == "[a-z]"


def test_where_a_number_ends_is_added_to_where_all_end():
    assert len(asked({"dtype": int}, {"stop_regex": "x+"}).sampling.stop_regex) == 2


def test_two_constraints_for_all_are_refused():
    with pytest.raises(ProgramError, match="regex and choices"):
        asked({}, {"regex": "a", "choices": ["a"]})


def test_a_value_that_is_none_of_an_option_is_refused_where_it_is_asked_for():
    def program(s):
        with pytest.raises(ProgramError, match="temperature"):
            gen("x", temperature=float("nan"))

    function(program).run(backend=FakeBackend())
