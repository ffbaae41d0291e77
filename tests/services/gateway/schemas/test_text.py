"""The bodies of /tokenize and /detokenize."""

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.text import MAX_CHARACTERS, MAX_IDS, MAX_TEXTS, Texts, read_detokenize, read_tokenize
from shared import wire
from shared.tool_format import tool_format
from tests.support.gateway_terms import LIMITS

HELLO = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "look_up"}}


def tokenize(**body):
    return read_tokenize(msgspec.json.encode(body), LIMITS, tool_format(None))


def detokenize(**body):
    return read_detokenize(msgspec.json.encode(body), LIMITS)


def test_a_prompt_as_a_remote_tokenizer_sends_it():
    plain = wire.Text("", "tokenize", prompt="Hi", add_special_tokens=False)
    assert tokenize(prompt="Hi", add_special_tokens=False) == Texts([plain], is_list=False)
    assert tokenize(prompt="Hi").questions[0].add_special_tokens


def test_a_list_of_prompts():
    texts = tokenize(model="default", prompt=["Hi", ""], return_token_strs=True)
    assert texts.is_list
    assert [question.prompt for question in texts.questions] == ["Hi", ""]
    assert all(question.with_tokens for question in texts.questions)
    assert tokenize(prompt=[]) == Texts([], is_list=True)


def test_a_conversation_with_what_templates_take():
    texts = tokenize(
        messages=HELLO, tools=[TOOL], chat_template_kwargs={"mood": "good"}, add_generation_prompt=False, prompt=None
    )
    assert texts.questions == [
        wire.Text(
            "",
            "tokenize",
            messages=(wire.ChatMessage("user", "Hi"),),
            tools=(TOOL,),
            template_options={"chat_template_kwargs": {"mood": "good"}, "add_generation_prompt": False},
        )
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "x", "messages": HELLO}, "prompt"),
        ({"prompt": 3}, "prompt"),
        ({"prompt": ["x"] * (MAX_TEXTS + 1)}, "prompt"),
        ({"prompt": "x", "tools": [TOOL]}, "tools"),
        ({"messages": HELLO, "add_special_tokens": True}, "add_special_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": HELLO, "chat_template": "x"}, "chat_template"),
        ({"prompt": "x", "promt": "y"}, "promt"),
        ({"prompt": "x", "model": "other"}, "model"),
    ],
)
def test_what_is_refused_of_tokenize(body, param):
    with pytest.raises(ApiError) as caught:
        tokenize(**body)
    assert caught.value.error.param == param


def test_ids_alone_and_in_lists():
    assert detokenize(tokens=[1, 2]) == Texts(
        [wire.Text("", "detokenize", token_ids=(1, 2), skip_special_tokens=False)], is_list=False
    )
    assert detokenize(tokens=[]).questions[0].token_ids == ()
    texts = detokenize(tokens=[[1], []], skip_special_tokens=True)
    assert texts.is_list
    assert [question.token_ids for question in texts.questions] == [(1,), ()]
    assert texts.questions[0].skip_special_tokens


@pytest.mark.parametrize("tokens", [None, "x", [1, [2]], [[1], 2], [True], [1.5], [-1], [LIMITS.vocab_size], [2**70]])
def test_what_are_no_ids(tokens):
    with pytest.raises(ApiError) as caught:
        detokenize(tokens=tokens)
    assert caught.value.error.param.partition(".")[0] == "tokens"


def test_more_ids_than_the_model_can_hold():
    with pytest.raises(ApiError) as caught:
        detokenize(tokens=[1] * (LIMITS.max_model_len + 1))
    assert caught.value.error.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("read", "field", "most", "fitting"),
    [
        (tokenize, "prompt", MAX_CHARACTERS, ["x" * (MAX_CHARACTERS // 4)] * 4),
        (detokenize, "tokens", MAX_IDS, [[1] * (MAX_IDS // 1024)] * 1024),
    ],
)
def test_a_list_is_bounded_in_all(read, field, most, fitting):
    assert read(**{field: fitting}).is_list
    longer = [*fitting[:-1], fitting[-1] + fitting[-1][:1]]
    with pytest.raises(ApiError, match=rf"at most {most} \w+ at once, got {most + 1}") as caught:
        read(**{field: longer})
    assert caught.value.error.param == field
