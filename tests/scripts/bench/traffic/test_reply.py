import json

import pytest

from scripts.bench.traffic.reply import Reply


def line(**event):
    return "data: " + json.dumps(event)


def text(piece, finish_reason=None):
    return line(choices=[{"index": 0, "text": piece, "finish_reason": finish_reason}])


def test_times_and_text_of_a_stream():
    reply = Reply(sent_s=10.0)
    assert reply.hear("", 10.5)
    assert reply.hear(": comment", 10.6)
    for piece, now_s in (("", 10.9), ("a", 11.0), ("b", 11.5), ("c", 13.0)):
        assert reply.hear(text(piece), now_s)
    assert reply.hear(text("", "length"), 13.1)
    assert not reply.hear("data: [DONE]", 13.2)
    reply.end(13.3)
    assert (reply.text, reply.chunks, reply.finish_reason) == ("abc", 3, "length")
    assert (reply.first_s, reply.gaps_s, reply.ended_s) == (11.0, [0.5, 1.5], 13.3)
    assert reply.new_tokens == 3  # without usage, a chunk counts as a token


def test_usage_counts_more_than_chunks():
    reply = Reply(sent_s=0.0)
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}
    reply.hear(text("abc"), 1.0)
    reply.hear(line(choices=[], usage=usage), 1.0)
    reply.end(2.0)
    assert (reply.prompt_tokens, reply.new_tokens, reply.cached_tokens) == (7, 5, 0)


def test_cached_tokens_as_llama_cpp_says_them():
    reply = Reply(sent_s=0.0)
    reply.hear(line(choices=[], timings={"cache_n": 4}), 1.0)
    assert reply.cached_tokens == 4


def test_an_error_in_the_stream_is_raised():
    with pytest.raises(RuntimeError, match="no room"):
        Reply(sent_s=0.0).hear(line(error={"message": "no room"}), 1.0)
