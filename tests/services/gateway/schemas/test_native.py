import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.native import read_native
from shared import wire
from tests.support.gateway_terms import TERMS


def read(**fields):
    return read_native(msgspec.json.encode(fields), TERMS)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    return caught.value.error


@pytest.mark.parametrize("name", ["text", "prompt"])
def test_a_text(name):
    request = read(**{name: "Once"}).parts[0].request
    assert (request.prompt, request.prompt_token_ids, request.max_new_tokens) == ("Once", None, 128)


def test_token_ids():
    assert read(input_ids=[1, 2]).parts[0].request.prompt_token_ids == (1, 2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "text"),
        ({"text": None}, "text"),
        ({"text": "a", "prompt": "b"}, "prompt"),
        ({"text": "a", "input_ids": [1]}, "input_ids"),
        ({"text": ["a", 5]}, "text.1"),
        ({"text": []}, "text"),
        ({"text": ["a"] * 9}, "text"),
        ({"text": ["a", "b"], "rid": ["r"]}, "rid"),
        ({"text": ["a", "b"], "sampling_params": [{}, {"top_p": 2}]}, "sampling_params.1.top_p"),
        ({"text": ["a", "b"], "sampling_params": [{}, {"n": 2}]}, "sampling_params.n"),
        ({"text": "a", "rid": ["r"]}, "rid"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [[1], [-1]]}, "input_ids.1"),
        ({"input_ids": [1, [1]]}, "input_ids.1"),
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
        ({"text": "a", "sampling_params": {"stop_regex": "["}}, "sampling_params.stop_regex"),
        ({"text": "a", "stop_regex": "["}, "stop_regex"),
        (
            {"text": "a", "sampling_params": {"min_new_tokens": 9, "max_new_tokens": 8}},
            "sampling_params.min_new_tokens",
        ),
        ({"text": "a", "sampling_params": {"skip_tokenizer_init": True}}, "sampling_params.skip_tokenizer_init"),
        ({"text": "a", "sampling_params": {"top_k": 5}, "temperature": 1}, "temperature"),
        ({"text": "a", "image_data": "file:///etc/passwd"}, "image_data"),
        ({"text": "a", "logprob_start_len": -2}, "logprob_start_len"),
        ({"text": "a", "return_logprob": True, "top_logprobs_num": 21}, "top_logprobs_num"),
        ({"text": "a", "tmeperature": 1}, "tmeperature"),
        ({"text": "a", "continue_final_message": True}, "continue_final_message"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}], "text": "a"}, "messages"),
        ({"messages": [[{"role": "user", "content": "a"}], [{"role": "nobody"}]]}, "messages.1.0.role"),
        ({"text": "a", "model": 5}, "model"),
    ],
)
def test_refusals_name_the_parameter(fields, param):
    error = refusal(**fields)
    assert (error.status, error.param) == (400, param)


def test_sampling_fields_stand_nested_or_at_the_top_level():
    nested = read(text="a", sampling_params={"max_new_tokens": 3, "temperature": 0}).parts[0].request
    assert nested == read(text="a", max_new_tokens=3, temperature=0).parts[0].request
    assert read(text="a", sampling_params=None).parts[0].request == read(text="a", sampling_params={}).parts[0].request


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
    request = read(text="a", sampling_params=values, return_logprob=None, logprob_start_len=None).parts[0].request
    assert request == read(text="a", max_new_tokens=16).parts[0].request


def test_high_temperatures_are_allowed_here():
    assert read(text="a", temperature=5).parts[0].request.sampling.temperature == 5.0


@pytest.mark.parametrize("name", ["seed", "sampling_seed"])
def test_either_name_of_the_seed(name):
    assert read(text="a", **{name: 7}).parts[0].request.sampling.seed == 7


def test_logprobs():
    asked = read(text="a", return_logprob=True, top_logprobs_num=2).parts[0].request.sampling
    assert (asked.logprobs, asked.top_logprobs) == (True, 2)
    assert read(text="a", top_logprobs_num=2).parts[0].request.sampling.top_logprobs == 0


def test_a_list_of_prompts_shares_what_is_no_list():
    call = read(text=["a", "b"], rid=["x", "y"], sampling_params=[{"top_k": 1}, {"top_k": 2}], return_logprob=True)
    assert [(part.request.prompt, part.request.client_id) for part in call.parts] == [("a", "x"), ("b", "y")]
    assert [request.sampling.top_k for request in call.requests] == [1, 2]
    assert all(request.sampling.logprobs for request in call.requests)
    assert [part.name_of("prompt") for part in call.parts] == ["text.0", "text.1"]
    assert [part.request.prompt_token_ids for part in read(input_ids=[[1], [2, 3]]).parts] == [(1,), (2, 3)]


def test_a_conversation_and_a_list_of_them():
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"}]
    request = read(messages=talk, continue_final_message=True).parts[0].request
    assert request.messages == (wire.ChatMessage("user", "Hi"), wire.ChatMessage("assistant", "He"))
    assert request.template_options == {"continue_final_message": True}
    call = read(messages=[talk, talk[:1]])
    assert [len(part.request.messages) for part in call.parts] == [2, 1]
    assert [part.name_of("prompt") for part in call.parts] == ["messages.0", "messages.1"]


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({}, None),
        ({"max_new_tokens": 0}, 0),
        ({"logprob_start_len": 3}, 3),
        ({"logprob_start_len": 3, "max_new_tokens": 0}, 3),
        ({"return_logprob": False, "logprob_start_len": 3}, None),
    ],
)
def test_where_the_prompt_is_scored_from(fields, start):
    asked = read(**{"text": "a", "return_logprob": True, **fields}).parts[0].request.sampling
    assert asked.prompt_logprobs_from == start


def test_the_stop_string_can_stay_in_the_text():
    assert read(text="a", stop="x", no_stop_trim=True).parts[0].request.text.include_stop
