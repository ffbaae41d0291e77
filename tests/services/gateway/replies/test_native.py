import json

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.native import NativeOptions, NativeReply
from services.gateway.replies.reply import ReplyHead
from shared import wire
from tests.support.replies import events, whole

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
PIECES = [
    Delta("Hel", (1,), Usage(5, 3, 1), (wire.TextLogprob(1, -0.5, b"Hel", ((1, -0.5, b"Hel"), (7, -2.0, b"Ho"))),)),
    Delta("lo", (2,), Usage(5, 3, 2), (wire.TextLogprob(2, float("nan"), b"lo"),)),
]


def reply(client_id=None, *, logprobs=False, top=False, text=False):
    return NativeReply(HEAD, options=[NativeOptions(client_id, logprobs, top, text)], is_list=False)


def test_a_whole_reply():
    ending = Ending(Usage(5, 3, 2), 1, "tokenizer-1", "stop", 9)
    assert whole(reply(), PIECES, ending) == {
        "text": "Hello",
        "output_ids": (1, 2),
        "meta_info": {
            "id": "abc",
            "finish_reason": {"type": "stop", "matched": 9},
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "cached_tokens": 3,
            "e2e_latency": 1.5,
        },
    }


def test_length_says_how_long():
    ending = Ending(Usage(5, 3, 2), 1, "tokenizer-1", "length")
    assert whole(reply(), PIECES, ending)["meta_info"]["finish_reason"] == {"type": "length", "length": 2}


def test_a_stream_is_cumulative():
    ending = Ending(Usage(5, 3, 2), 1, "tokenizer-1", "stop", "END")
    found = events(reply("mine"), PIECES, ending)
    assert [event["text"] for event in found] == ["Hel", "Hello", "Hello"]
    assert [event["output_ids"] for event in found] == [(1,), (1, 2), (1, 2)]
    assert [event["meta_info"]["completion_tokens"] for event in found] == [1, 2, 2]
    reasons = [event["meta_info"]["finish_reason"] for event in found]
    assert reasons == [None, None, {"type": "stop", "matched": "END"}]
    assert {event["meta_info"]["id"] for event in found} == {"mine"}


def test_logprobs_are_triples():
    ending = Ending(Usage(5, 3, 2), 1, "tokenizer-1", "stop")
    meta_info = whole(reply(logprobs=True), PIECES, ending)["meta_info"]
    assert meta_info["output_token_logprobs"] == [[-0.5, 1, None], [-9999.0, 2, None]]
    assert "output_top_logprobs" not in meta_info
    meta_info = whole(reply(logprobs=True, top=True, text=True), PIECES, ending)["meta_info"]
    assert meta_info["output_token_logprobs"][0] == [-0.5, 1, "Hel"]
    assert meta_info["output_top_logprobs"] == [[[-0.5, 1, "Hel"], [-2.0, 7, "Ho"]], []]
    json.dumps(meta_info, allow_nan=False)
