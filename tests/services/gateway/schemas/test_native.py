import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.native import read_native
from tests.support.gateway_terms import TERMS


def read(**fields):
    return read_native(msgspec.json.encode(fields), TERMS)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    return caught.value.error


@pytest.mark.parametrize("name", ["text", "prompt"])
def test_a_text(name):
    request = read(**{name: "Once"}).request
    assert (request.prompt, request.prompt_token_ids, request.max_new_tokens) == ("Once", None, 128)


def test_token_ids():
    assert read(input_ids=[1, 2]).request.prompt_token_ids == (1, 2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "text"),
        ({"text": None}, "text"),
        ({"text": "a", "prompt": "b"}, "prompt"),
        ({"text": "a", "input_ids": [1]}, "input_ids"),
        ({"text": ["a"]}, "text"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [[1]]}, "input_ids.0"),
        ({"input_ids": [1, True]}, "input_ids.1"),
        ({"input_ids": [1.5]}, "input_ids.0"),
        ({"input_ids": [1000]}, "input_ids"),
        ({"input_ids": [-1]}, "input_ids"),
        ({"input_ids": [1] * 256}, "input_ids"),
        ({"text": "a", "stream": "yes"}, "stream"),
        ({"text": "a", "sampling_params": []}, "sampling_params"),
        ({"text": "a", "sampling_params": [{}]}, "sampling_params"),
        ({"text": "a", "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"text": "a", "sampling_params": {"stop": [""]}}, "sampling_params.stop"),
        (
            {"text": "a", "sampling_params": {"min_new_tokens": 9, "max_new_tokens": 8}},
            "sampling_params.min_new_tokens",
        ),
        ({"text": "a", "sampling_params": {"skip_tokenizer_init": True}}, "sampling_params.skip_tokenizer_init"),
        ({"text": "a", "sampling_params": {"top_k": 5}, "temperature": 1}, "temperature"),
        ({"text": "a", "image_data": "file:///etc/passwd"}, "image_data"),
        ({"text": "a", "logprob_start_len": 0}, "logprob_start_len"),
        ({"text": "a", "return_logprob": True, "top_logprobs_num": 21}, "top_logprobs_num"),
        ({"text": "a", "tmeperature": 1}, "tmeperature"),
        ({"text": "a", "model": 5}, "model"),
    ],
)
def test_refusals_name_the_parameter(fields, param):
    error = refusal(**fields)
    assert (error.status, error.param) == (400, param)


def test_sampling_fields_stand_nested_or_at_the_top_level():
    nested = read(text="a", sampling_params={"max_new_tokens": 3, "temperature": 0}).request
    assert nested == read(text="a", max_new_tokens=3, temperature=0).request
    assert read(text="a", sampling_params=None).request == read(text="a", sampling_params={}).request


def test_a_misspelt_sampling_field_at_the_top_level_is_recognised():
    assert "'temperature'" in refusal(text="a", tmeperature=1).message


def test_what_sglangs_own_client_sends():
    nothing = ["stop_token_ids", "regex", "json_schema"]
    values = dict.fromkeys(nothing) | {
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "max_new_tokens": 16,
        "min_new_tokens": 0,
        "n": 1,
        "stop": [],
        "stop_regex": [],
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "ignore_eos": False,
    }
    request = read(text="a", sampling_params=values, return_logprob=None, logprob_start_len=None).request
    assert request == read(text="a", max_new_tokens=16).request


def test_high_temperatures_are_allowed_here():
    assert read(text="a", temperature=5).request.sampling.temperature == 5.0


@pytest.mark.parametrize("name", ["seed", "sampling_seed"])
def test_either_name_of_the_seed(name):
    assert read(text="a", **{name: 7}).request.sampling.seed == 7


def test_logprobs():
    asked = read(text="a", return_logprob=True, top_logprobs_num=2).request.sampling
    assert (asked.logprobs, asked.top_logprobs) == (True, 2)
    assert read(text="a", top_logprobs_num=2).request.sampling.top_logprobs == 0


def test_the_stop_string_can_stay_in_the_text():
    assert read(text="a", stop="x", no_stop_trim=True).request.text.include_stop
