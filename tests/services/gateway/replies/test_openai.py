"""OpenAI's two replies, whole and in chunks, on the same pieces of output."""

import json

import pytest

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.chat import ChatReply
from services.gateway.replies.completions import CompletionReply
from services.gateway.replies.openai import StreamOptions
from services.gateway.replies.reply import ReplyHead
from shared import wire
from tests.support.replies import events, whole

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
PIECES = [
    Delta("Hel", (1,), Usage(5, 3, 1), (wire.TextLogprob(1, -0.5, b"Hel", ((1, -0.5, b"Hel"), (7, -2.0, b"Ho"))),)),
    Delta("", (2,), Usage(5, 3, 2), (wire.TextLogprob(2, -1.0, b"l\xf0\x9f"),)),
    Delta("l😀", (3,), Usage(5, 3, 3), (wire.TextLogprob(3, float("-inf"), b"\x98\x80"),)),
]
ENDING = Ending(Usage(5, 3, 4), 1, "tokenizer-1", "stop", 2)
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 4,
    "total_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 3},
}
WITH_USAGE = StreamOptions(include_usage=True)
CONTINUOUS = StreamOptions(include_usage=True, continuous_usage_stats=True)


def chat(options=None, *, has_logprobs=False):
    return ChatReply(HEAD, options=options or StreamOptions(), has_logprobs=has_logprobs)


def completion(options=None, *, has_logprobs=False):
    return CompletionReply(HEAD, options=options or StreamOptions(), has_logprobs=has_logprobs)


def chunks(reply, pieces=PIECES):
    found = events(reply, pieces, ENDING)
    json.dumps(found, allow_nan=False)
    return found


def test_a_chat_completion():
    assert whole(chat(), PIECES, ENDING) == {
        "id": "chatcmpl-abc",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hell😀", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }


def test_a_completion():
    assert whole(completion(), PIECES, ENDING) == {
        "id": "cmpl-abc",
        "object": "text_completion",
        "created": 1700000000,
        "model": "tiny",
        "choices": [{"index": 0, "text": "Hell😀", "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE,
    }


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("options", [StreamOptions(), WITH_USAGE, CONTINUOUS])
def test_the_contract_of_a_stream(make, options):
    found = chunks(make(options))
    with_choice = [chunk for chunk in found if chunk["choices"]]
    assert len({chunk["id"] for chunk in found}) == 1
    assert {chunk["object"] for chunk in found} <= {"chat.completion.chunk", "text_completion"}
    assert [chunk["choices"][0]["finish_reason"] for chunk in with_choice] == [None] * (len(with_choice) - 1) + ["stop"]
    assert all(chunk["choices"][0]["index"] == 0 for chunk in with_choice)


def test_the_role_comes_once_and_first():
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(chat())]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "l😀"}, {}]


def test_the_role_comes_also_when_there_is_no_output():
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(chat(), pieces=[])]
    assert deltas == [{"role": "assistant", "content": ""}, {}]


def test_the_texts_of_a_completion():
    assert [chunk["choices"][0]["text"] for chunk in chunks(completion())] == ["Hel", "l😀", ""]


@pytest.mark.parametrize("make", [chat, completion])
def test_usage_only_where_it_was_asked_for(make):
    assert all("usage" not in chunk for chunk in chunks(make()))
    *others, last = chunks(make(WITH_USAGE))
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in others)
    assert (last["usage"], last["choices"]) == (USAGE, [])
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks(make(CONTINUOUS))]
    assert counts == sorted(counts)
    assert counts[-1] == 4


def test_chat_logprobs_have_an_entry_a_token():
    logprobs = whole(chat(has_logprobs=True), PIECES, ENDING)["choices"][0]["logprobs"]
    assert logprobs["content"] == [
        {
            "token": "Hel",
            "logprob": -0.5,
            "bytes": [72, 101, 108],
            "top_logprobs": [
                {"token": "Hel", "logprob": -0.5, "bytes": [72, 101, 108]},
                {"token": "Ho", "logprob": -2.0, "bytes": [72, 111]},
            ],
        },
        {"token": "l�", "logprob": -1.0, "bytes": [108, 240, 159], "top_logprobs": []},
        {"token": "��", "logprob": -9999.0, "bytes": [152, 128], "top_logprobs": []},
    ]
    streamed = [chunk["choices"][0]["logprobs"] for chunk in chunks(chat(has_logprobs=True))]
    assert [entry for each in streamed if each for entry in each["content"]] == logprobs["content"]


def test_completion_logprobs_are_four_lists():
    logprobs = whole(completion(has_logprobs=True), PIECES, ENDING)["choices"][0]["logprobs"]
    assert logprobs == {
        "tokens": ["Hel", "bytes:\\x6c\\xf0\\x9f", "bytes:\\x98\\x80"],
        "token_logprobs": [-0.5, -1.0, -9999.0],
        "top_logprobs": [{"Hel": -0.5, "Ho": -2.0}, {"bytes:\\x6c\\xf0\\x9f": -1.0}, {"bytes:\\x98\\x80": -9999.0}],
        "text_offset": [0, 3, 4],
    }
    streamed = [chunk["choices"][0]["logprobs"] for chunk in chunks(completion(has_logprobs=True))]
    for name, values in logprobs.items():
        assert [value for each in streamed if each for value in each[name]] == values
