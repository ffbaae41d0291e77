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
    request = read(prompt=prompt).request
    assert (request.prompt, request.prompt_token_ids, request.max_new_tokens) == ("Once", None, 16)


def test_an_empty_text_is_the_tokenizers_to_judge():
    assert read(prompt="").request.prompt == ""


@pytest.mark.parametrize("prompt", [[0, 999], [[0, 999]]])
def test_token_ids(prompt):
    request = read(prompt=prompt).request
    assert (request.prompt, request.prompt_token_ids) == (None, (0, 999))


@pytest.mark.parametrize(
    "prompt",
    [
        *(None, 5, {}, [], [[]], [None], [{}]),
        *([1000], [-1], [1.5], [True], [1, True], [1, "a"], [2**40], [2**70], [[1, "a"]]),
        *(["a", "b"], [[1], [2]], ["a", 1], [[["a"]]]),
        [1] * 256,
    ],
)
def test_bad_prompts_are_refused(prompt):
    error = refusal(prompt=prompt)
    assert (error.status, error.param) == (400, "prompt")


def test_a_prompt_over_the_context_is_refused_with_both_numbers():
    error = refusal(prompt=[1] * 300)
    assert error.code == "context_length_exceeded"
    assert "256" in error.message
    assert "300" in error.message


@pytest.mark.parametrize(
    "fields",
    [{"echo": True}, {"best_of": 3}, {"suffix": "end"}, {"n": 2}, {"tools": []}],
)
def test_what_is_not_there_yet_is_refused(fields):
    assert refusal(**fields).param == next(iter(fields))


def test_neutral_values_pass():
    assert read(echo=False, best_of=1, suffix=None, n=1, logprobs=None, stop=None, user="u").request == read().request


def test_logprobs():
    assert not read().request.sampling.logprobs
    assert read(logprobs=0).request.sampling.logprobs
    assert read(logprobs=5).request.sampling.top_logprobs == 5
    for value in (21, -1, True, 1.5):
        assert refusal(logprobs=value).param == "logprobs"
