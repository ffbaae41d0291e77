import json

import pytest

from sapwood.commands.load.reply import Reply


def heard(*events, start_s=1.0, done=True):
    """The n-th event comes n seconds after the start."""
    reply = Reply(sent_s=start_s)
    for number, event in enumerate(events, 1):
        reply.hear(f"data: {json.dumps(event)}", start_s + number)
        reply.hear("", start_s + number)
    if done:
        reply.hear("data: [DONE]", start_s + len(events))
    reply.end(start_s + len(events))
    return reply


def text(piece):
    return {"choices": [{"text": piece, "finish_reason": None}]}


USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
}


def test_times_are_those_of_the_text():
    reply = heard(text(""), text("a"), text("b"), text("c"), USAGE)
    assert (reply.first_s, reply.last_s, reply.ended_s) == (3.0, 5.0, 6.0)
    assert reply.gaps_s == [1.0, 1.0]
    assert reply.token_s == 1.0
    assert (reply.prompt_tokens, reply.new_tokens, reply.cached_tokens, reply.error) == (7, 3, 5, None)


def test_a_server_that_says_nothing_of_its_cache():
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": None}}
    reply = heard(text("a"), usage)
    assert reply.cached_tokens is None
    assert reply.token_s is None


def test_an_error_in_the_stream():
    assert heard({"error": {"message": "out of memory", "code": 500}}, done=False).error == "out of memory"


def test_a_stream_that_breaks_off_is_no_answer():
    assert heard(text("a"), done=False).error == "the stream broke off"


def test_what_is_no_event():
    with pytest.raises(ValueError, match="malformed"):
        Reply(0.0).hear("data: {x", 1.0)
