import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.completions import read_completion
from tests.support.gateway_terms import TERMS


def read(**fields):
    return read_completion(msgspec.json.encode({"prompt": "Once", **fields}), TERMS)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    return caught.value.error


@pytest.mark.parametrize("prompt", ["Once", ["Once"]])
def test_a_text(prompt):
    request = read(prompt=prompt).parts[0].request
    assert (request.prompt, request.prompt_token_ids, request.max_new_tokens) == ("Once", None, 16)


def test_an_empty_text_is_the_tokenizers_to_judge():
    assert read(prompt="").parts[0].request.prompt == ""


@pytest.mark.parametrize("prompt", [[0, 999], [[0, 999]]])
def test_token_ids(prompt):
    request = read(prompt=prompt).parts[0].request
    assert (request.prompt, request.prompt_token_ids) == (None, (0, 999))


@pytest.mark.parametrize(
    "prompt",
    [
        *(None, 5, {}, [], [[]], [None], [{}]),
        *([1000], [-1], [1.5], [True], [1, True], [1, "a"], [2**40], [2**70], [[1, "a"]]),
        *(["a", 1], [[["a"]]], ["a"] * 9),
        [1] * 256,
    ],
)
def test_bad_prompts_are_refused(prompt):
    error = refusal(prompt=prompt)
    assert (error.status, error.param.partition(".")[0]) == (400, "prompt")


def test_a_prompt_over_the_context_is_refused_with_both_numbers():
    error = refusal(prompt=[1] * 300)
    assert error.code == "context_length_exceeded"
    assert "256" in error.message
    assert "300" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        *({"suffix": "end"}, {"tools": []}, {"n": 9}, {"n": 0}, {"best_of": 0}, {"best_of": 1, "n": 2}),
        *({"best_of": 2, "stream": True}, {"prompt": ["a", "b", "c"], "n": 3}),
    ],
)
def test_what_cannot_be_is_refused(fields):
    assert refusal(**fields).param == next(iter(fields))


def test_neutral_values_pass():
    assert (
        read(echo=False, best_of=1, suffix=None, n=1, logprobs=None, stop=None, user="u").parts[0].request
        == read().parts[0].request
    )


def test_several_prompts_are_as_many_parts():
    call = read(prompt=["a", "b"], n=2)
    assert [request.prompt for request in call.requests] == ["a", "a", "b", "b"]
    assert [call.part_of(index).name_of("prompt") for index in range(4)] == ["prompt.0"] * 2 + ["prompt.1"] * 2
    assert [part.request.prompt_token_ids for part in read(prompt=[[1, 2], [3]]).parts] == [(1, 2), (3,)]


def test_samples_draw_with_seeds_of_their_own():
    assert [request.sampling.seed for request in read(n=3, seed=2**63 - 1).requests] == [2**63 - 1, 0, 1]
    assert [request.sampling.seed for request in read(prompt=["a", "b"], seed=5).requests] == [5, 5]


def test_the_likeliest_are_found_by_log_probabilities():
    call = read(n=2, best_of=4)
    assert (call.samples, call.requests[0].sampling.logprobs) == (4, True)
    assert not read(n=2, best_of=2).requests[0].sampling.logprobs


def test_what_is_repeated_is_scored_if_asked_for():
    assert read(echo=True, logprobs=1, max_tokens=0).requests[0].sampling.prompt_logprobs_from == 0
    assert read(echo=True).requests[0].sampling.prompt_logprobs_from is None
    assert read(logprobs=1).requests[0].sampling.prompt_logprobs_from is None


def test_logprobs():
    assert not read().parts[0].request.sampling.logprobs
    assert read(logprobs=0).parts[0].request.sampling.logprobs
    assert read(logprobs=5).parts[0].request.sampling.top_logprobs == 5
    for value in (21, -1, True, 1.5):
        assert refusal(logprobs=value).param == "logprobs"
