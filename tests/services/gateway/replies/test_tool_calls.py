"""Calls of functions in chat replies, whole and streamed, read by OpenAI's own accumulation."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.chat import ChatReply
from services.gateway.replies.openai import StreamOptions
from services.gateway.replies.reply import ReplyHead
from shared import wire
from shared.tool_format import HERMES, LLAMA3
from tests.support import replies

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
PARIS, ROME = '{"city": "Paris"}', '{"city": "Ro\\"}</tool_call>"}'
STYLES = [HERMES, LLAMA3]


def two_calls(style):
    return style.call("get_weather", PARIS) + style.separator + style.call("get_time", ROME)


def ending(finish_reason="stop"):
    return Ending(Usage(5, 3, 40), 1, "tokenizer-1", finish_reason)


def deltas_of(pieces):
    """One token a piece, each with its log-probability."""
    return [
        Delta(text, (place,), Usage(5, 3, place + 1), (wire.TextLogprob(place, -0.5 * place, b"%d" % place),))
        for place, text in enumerate(pieces)
    ]


def reply(style, *, has_logprobs=False):
    return ChatReply(HEAD, options=StreamOptions(), has_logprobs=has_logprobs, tools=style)


def whole(style, text, finish_reason="stop"):
    (choice,) = replies.whole(reply(style), deltas_of([text]), ending(finish_reason))["choices"]
    return choice


def streamed(style, pieces, finish_reason="stop", *, has_logprobs=False):
    one = reply(style, has_logprobs=has_logprobs)
    chunks = replies.events(one, deltas_of(pieces), ending(finish_reason))
    json.dumps(chunks, allow_nan=False)
    return chunks


def accumulated(chunks):
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk, strict=True))
    return state.current_completion_snapshot.choices[0]


def without_ids(message):
    functions = [call["function"] for call in message.get("tool_calls") or []]
    return message["content"], [(function["name"], function["arguments"]) for function in functions]


@pytest.fixture(params=STYLES, ids=lambda style: style.name)
def style(request):
    return request.param


def test_a_message_of_calls_alone_has_no_content(style):
    choice = whole(style, two_calls(style))
    first, second = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert first == {"id": first["id"], "type": "function", "function": {"name": "get_weather", "arguments": PARIS}}
    assert second["function"] == {"name": "get_time", "arguments": ROME}
    assert first["id"] != second["id"]


def test_the_official_types_take_it(style):
    body = replies.whole(reply(style), deltas_of([two_calls(style)]), ending())
    message = ChatCompletion.model_validate(body, strict=True).choices[0].message
    assert [json.loads(call.function.arguments)["city"] for call in message.tool_calls] == ["Paris", 'Ro"}</tool_call>']


def test_text_before_a_call_is_content(style):
    message = whole(style, f"I shall look.\n{style.call('f', '{}')}")["message"]
    assert (message["content"], len(message["tool_calls"])) == ("I shall look.", 1)


def test_without_a_call_a_message_is_as_always(style):
    choice = whole(style, "No < call.\n")
    assert choice["finish_reason"] == "stop"
    assert choice["message"] == {"role": "assistant", "content": "No < call.\n", "refusal": None}


def test_without_tools_nothing_is_a_call(style):
    text = two_calls(style)
    choice = whole(None, text)
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    chunks = streamed(None, list(text))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text
    assert all("tool_calls" not in chunk["choices"][0]["delta"] for chunk in chunks)


def test_the_deltas_of_a_call(style):
    begin, end = style.tag("f")
    chunks = streamed(style, [begin, '{"a"', ": 1}", end])
    first, opened, *others = [chunk["choices"][0]["delta"] for chunk in chunks]
    call_id = opened["tool_calls"][0]["id"]
    assert first == {"role": "assistant", "content": None}
    assert opened["tool_calls"] == [
        {"index": 0, "id": call_id, "type": "function", "function": {"name": "f", "arguments": ""}}
    ]
    assert others == [
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {},
    ]


def test_the_contract_of_a_stream_with_calls(style):
    choices = [chunk["choices"][0] for chunk in streamed(style, list(two_calls(style)))]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    assert [place for place, choice in enumerate(choices) if "role" in choice["delta"]] == [0]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    for index, (_, of_one) in enumerate(itertools.groupby(calls, key=lambda call: call["index"])):
        first, *others = of_one
        assert first["index"] == index
        assert set(first) == {"index", "id", "type", "function"}
        assert all(set(call) == {"index", "function"} and set(call["function"]) == {"arguments"} for call in others)
        json.loads("".join(call["function"]["arguments"] for call in [first, *others]))


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
@given(st.sampled_from(STYLES), st.data())
def test_official_accumulation_equals_the_whole(finish_reason, style, data):
    text = data.draw(st.sampled_from(["", "Well.\n", "a <b> "])) + two_calls(style)
    text = text[: data.draw(st.integers(1, len(text)))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(text)])]
    streamed_choice = accumulated(streamed(style, pieces, finish_reason)).model_dump()
    whole_choice = whole(style, text, finish_reason)
    assert without_ids(streamed_choice["message"]) == without_ids(whole_choice["message"])
    assert streamed_choice["finish_reason"] == whole_choice["finish_reason"]


def test_an_output_that_is_cut_in_a_call_says_length(style):
    text = two_calls(style)[: -len(ROME) // 2]
    choice = whole(style, text, "length")
    assert choice["finish_reason"] == "length"
    assert accumulated(streamed(style, list(text), "length")).finish_reason == "length"
    cut = choice["message"]["tool_calls"][1]["function"]
    assert cut["name"] == "get_time"
    assert ROME.startswith(cut["arguments"])
    assert cut["arguments"] != ROME


def test_a_stop_inside_the_only_call_is_no_finished_call(style):
    begin, _ = style.tag("f")
    assert whole(style, f'{begin}{{"a": ')["finish_reason"] == "stop"


@pytest.mark.parametrize("text", ["Well.", None])
def test_every_tokens_logprobs_come_once(style, text):
    pieces = list((text or "") + two_calls(style))
    chunks = streamed(style, pieces, has_logprobs=True)
    found = [
        entry["token"]
        for chunk in chunks
        if chunk["choices"][0]["logprobs"] is not None
        for entry in chunk["choices"][0]["logprobs"]["content"]
    ]
    assert found == [str(place) for place in range(len(pieces))]
    assert accumulated(chunks).message.content == text
    all_at_once = replies.whole(reply(style, has_logprobs=True), deltas_of(pieces), ending())["choices"][0]["logprobs"]
    assert [entry["token"] for entry in all_at_once["content"]] == found


def test_nothing_held_back_is_lost_at_the_end(style):
    begin, _ = style.tag("f")
    chunks = streamed(style, ["Look: ", begin[:-3]], "length")
    assert accumulated(chunks).message.content == f"Look: {begin[:-3]}"
