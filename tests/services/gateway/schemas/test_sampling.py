"""The fields that all APIs share, through each of the three."""

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.gateway.schemas.native import read_native
from shared import wire
from tests.support.gateway_terms import TERMS

READERS = {
    "chat": lambda fields: read_chat(
        msgspec.json.encode({"messages": [{"role": "user", "content": "x"}], **fields}), TERMS
    ),
    "completions": lambda fields: read_completion(msgspec.json.encode({"prompt": "x", **fields}), TERMS),
    "native": lambda fields: read_native(msgspec.json.encode({"text": "x", **fields}), TERMS),
    "native nested": lambda fields: read_native(msgspec.json.encode({"text": "x", "sampling_params": fields}), TERMS),
}


@pytest.fixture(params=READERS)
def read(request):
    return READERS[request.param]


@pytest.fixture
def refusal(read):
    def refused(fields):
        with pytest.raises(ApiError) as caught:
            read(fields)
        assert caught.value.error.status == 400
        return caught.value.error

    return refused


def test_the_defaults(read):
    assert read({}).parts[0].request.sampling == wire.Sampling(seed=42)
    assert read({}).parts[0].request.text == wire.TextOptions()
    assert read({}).parts[0].request.namespace == "tenant"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"top_p": 0}, {"top_p": 1e-6}),
        ({"top_k": -1}, {"top_k": None}),
        ({"top_k": 0}, {"top_k": None}),
        ({"top_k": 5}, {"top_k": 5}),
        ({"min_p": 0.1}, {"min_p": 0.1}),
        ({"repetition_penalty": 1.2}, {"repetition_penalty": 1.2}),
        ({"presence_penalty": -2, "frequency_penalty": 2}, {"presence_penalty": -2.0, "frequency_penalty": 2.0}),
        ({"logit_bias": {"999": -100, "0": 1.5}}, {"logit_bias": {999: -100.0, 0: 1.5}}),
        ({"stop_token_ids": [0, 999]}, {"stop_token_ids": (0, 999)}),
        ({"ignore_eos": True}, {"ignore_eos": True}),
        ({"seed": 0}, {"seed": 0}),
        ({"seed": -1}, {"seed": 2**63 - 1}),
        ({"seed": None}, {"seed": 42}),
    ],
)
def test_sampling_fields_reach_the_wire(read, fields, expected):
    assert read(fields).parts[0].request.sampling == wire.Sampling(**{"seed": 42, **expected})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stop": "END"}, wire.TextOptions(("END",))),
        ({"stop": ["a", "b"]}, wire.TextOptions(("a", "b"))),
        ({"stop": []}, wire.TextOptions()),
        ({"stop": None}, wire.TextOptions()),
        ({"stop_regex": "a+b"}, wire.TextOptions(stop_regex=("a+b",))),
        ({"stop_regex": ["a", "[bc]$"], "stop": "x"}, wire.TextOptions(("x",), stop_regex=("a", "[bc]$"))),
        ({"stop_regex": []}, wire.TextOptions()),
        ({"skip_special_tokens": False}, wire.TextOptions(skip_special_tokens=False)),
    ],
)
def test_text_options_reach_the_wire(read, fields, expected):
    assert read(fields).parts[0].request.text == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": -0.1},
        {"temperature": 101},
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": 1e308},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"top_k": -2},
        {"top_k": 1.5},
        {"top_k": True},
        {"top_k": 2**40},
        {"min_p": 2},
        {"repetition_penalty": 0},
        {"repetition_penalty": 3},
        {"presence_penalty": 2.1},
        {"frequency_penalty": -2.1},
        {"logit_bias": {"1000": 1}},
        {"logit_bias": {"-1": 1}},
        {"logit_bias": {"1.5": 1}},
        {"logit_bias": {"x": 1}},
        {"logit_bias": {"١": 1}},  # a digit, but not one of ours
        {"logit_bias": {"9" * 5000: 1}},
        {"logit_bias": {"1": 101}},
        {"logit_bias": {"1": "x"}},
        {"logit_bias": {str(i): 1 for i in range(11)}},
        {"logit_bias": []},
        {"stop": ""},
        {"stop": ["a", ""]},
        {"stop": ["a"] * 5},
        {"stop": ["a"] * 100_000},
        {"stop": "x" * 2000},
        {"stop": 1},
        {"stop_regex": ""},
        {"stop_regex": "a*"},
        {"stop_regex": ["a", "("]},
        {"stop_regex": "(?=a)b"},
        {"stop_regex": ["a"] * 5},
        {"stop_regex": "(?:x{100}){100}"},
        {"stop_regex": "a" * 2000},
        {"stop_regex": 1},
        {"stop": [1]},
        {"stop_token_ids": [1000]},
        {"stop_token_ids": [-1]},
        {"stop_token_ids": [2**40]},
        {"stop_token_ids": [1.5]},
        {"stop_token_ids": [True]},
        {"stop_token_ids": [1] * 1000},
        {"ignore_eos": 1},
        {"skip_special_tokens": "yes"},
        {"seed": 2**63},
        {"seed": 1.5},
        {"n": 0},
        {"n": 9},
        {"n": 1_000_000},
        {"regex": ""},
        {"ebnf": 5},
        {"json_schema": "{"},
        {"structural_tag": []},
    ],
)
def test_a_bad_value_is_refused_by_name(refusal, fields):
    (name,) = fields
    param = refusal(fields).param.removeprefix("sampling_params.")
    assert param == name or param.startswith(f"{name}.")


def test_a_misspelt_field_is_refused_with_the_right_name(refusal):
    error = refusal({"temprature": 1})
    assert error.param.removeprefix("sampling_params.") == "temprature"
    assert "'temperature'" in error.message


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("chat", "min_tokens", "max_tokens"),
        ("completions", "min_tokens", "max_tokens"),
        ("native", "min_new_tokens", "max_new_tokens"),
    ],
)
def test_limits_of_length(name, least, most):
    assert READERS[name]({least: 3, most: 5}).parts[0].request.sampling.min_new_tokens == 3
    assert READERS[name]({most: 10_000_000}).parts[0].request.max_new_tokens == 10_000_000
    for fields, param in (({least: 6, most: 5}, least), ({least: -1}, least), ({most: -1}, most)):
        with pytest.raises(ApiError) as caught:
            READERS[name](fields)
        assert caught.value.error.param == param
    for value in (True, 1.5, 1e308, "5", 2**31):
        with pytest.raises(ApiError) as caught:
            READERS[name]({most: value})
        assert caught.value.error.param == most


def test_salts_divide_the_tenants_part_of_the_cache():
    spaces = {
        READERS["chat"](fields).parts[0].request.namespace
        for fields in ({}, {"extra_key": "a"}, {"cache_salt": "a"}, {"extra_key": "a", "cache_salt": "a"})
    }
    assert len(spaces) == 4
    assert all(space == "tenant" or space.startswith("tenant/") for space in spaces)
    same = {READERS[name]({"cache_salt": "a"}).parts[0].request.namespace for name in ("chat", "completions", "native")}
    assert len(same) == 1


@pytest.mark.parametrize("name", ["chat", "completions", "native"])
def test_priority_and_cache_keys_are_taken_by_every_api(name):
    request = READERS[name]({"priority": -1000, "extra_key": "a", "cache_salt": "b"}).parts[0].request
    assert request.priority == -1000
    assert request.namespace == READERS["chat"]({"extra_key": "a", "cache_salt": "b"}).parts[0].request.namespace
    absent = READERS[name]({"priority": None, "extra_key": None, "cache_salt": ""}).parts[0].request
    assert (absent.priority, absent.namespace) == (0, "tenant")


@pytest.mark.parametrize("name", ["chat", "completions", "native"])
def test_a_timeout_is_taken_by_every_api(name):
    timeouts = [{"timeout": 2.5}, {"timeout": 3}, {"timeout": None}, {}]
    assert [READERS[name](body).parts[0].request.timeout_s for body in timeouts] == [2.5, 3, None, None]


@pytest.mark.parametrize("name", ["chat", "completions", "native"])
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        *(("timeout", value, "expected float") for value in ("1", True, [1], {})),
        *(("timeout", value, "> 0") for value in (0, -1)),
        *(("priority", value, "expected int") for value in ("1", True, 1.5, [1], {})),
        ("priority", 1001, "<= 1000"),
        ("priority", -1001, ">= -1000"),
        *((field, value, "expected str") for field in ("extra_key", "cache_salt") for value in (1, True, ["a"], {})),
        *((field, "x" * 257, "<= 256") for field in ("extra_key", "cache_salt")),
    ],
)
def test_priority_and_cache_keys_of_a_wrong_kind_are_refused(name, field, value, problem):
    with pytest.raises(ApiError) as caught:
        READERS[name]({field: value})
    error = caught.value.error
    assert (error.status, error.param) == (400, field)
    assert problem in error.message
