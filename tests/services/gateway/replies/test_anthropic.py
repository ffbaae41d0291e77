"""Anthropic's message, whole and as events. `accumulated` does what Anthropic's own clients do with the events."""

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.openapi.anthropic_replies import AnthropicMessage, MessageEvent
from services.gateway.replies.anthropic import AnthropicReply
from services.gateway.replies.reply import ReplyHead
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import HERMES, LLAMA3
from tests.support import replies

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
PARIS, ROME = '{"city": "Paris"}', '{"city": "Ro\\"}</tool_call>", "id": 123456789012345678901234567890}'
STYLES = [HERMES, LLAMA3]
USAGE = {
    "input_tokens": 2,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 3,
    "output_tokens": 40,
}


def ending(finish_reason="stop", matched_stop=None, completion_tokens=40):
    return Ending(Usage(5, 3, completion_tokens), 1, "tokenizer-1", finish_reason, matched_stop)


def deltas_of(pieces):
    return [Delta(text, (place,), Usage(5, 3, place + 1)) for place, text in enumerate(pieces)]


def whole(text, end=None, **options):
    reply = AnthropicReply(HEAD, max_tokens=40, **options)
    body = json.loads(msgspec.json.encode(replies.whole(reply, deltas_of([text]), end or ending())))
    msgspec.convert(body, AnthropicMessage)
    return body


def streamed(pieces, end=None, **options):
    reply = AnthropicReply(HEAD, max_tokens=40, **options)
    events = replies.events(reply, deltas_of(pieces), end or ending())
    msgspec.convert(events, list[MessageEvent])
    return events


def accumulated(events):
    message = None
    for event in events:
        match event["type"]:
            case "message_start":
                assert message is None
                message = dict(event["message"])
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"] | {"said": ""})
            case "content_block_delta":
                delta = event["delta"]
                (said,) = (delta[key] for key in ("text", "thinking", "partial_json") if key in delta)
                message["content"][event["index"]]["said"] += said
            case "content_block_stop":
                block = message["content"][event["index"]]
                said = block.pop("said")
                block |= {"input": json.loads(said)} if block["type"] == "tool_use" else {block["type"]: said}
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    assert event == {"type": "message_stop"}
    return message


def without_ids(message):
    blocks = [{key: value for key, value in block.items() if key != "id"} for block in message["content"]]
    return message | {"content": blocks}


def test_a_message():
    assert whole("Hello\n") == {
        "id": "msg_abc",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": "Hello\n"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def test_a_message_without_words_has_no_blocks():
    assert whole("")["content"] == []
    assert [event["type"] for event in streamed([])] == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (ending(), "end_turn", None),
        (ending(matched_stop=7), "end_turn", None),
        (ending(matched_stop="END"), "stop_sequence", "END"),
        (ending("length"), "max_tokens", None),
        (ending("length", completion_tokens=39), "model_context_window_exceeded", None),
    ],
)
def test_why_it_stopped(end, reason, sequence):
    stop = {"stop_reason": reason, "stop_sequence": sequence}
    assert whole("x", end).items() >= stop.items()
    (last,) = [event["delta"] for event in streamed(["x"], end) if event["type"] == "message_delta"]
    assert last == stop


def test_the_events_of_a_text():
    start, *events = streamed(["Hel", "", "lo"])
    assert start["message"] == {
        "id": "msg_abc",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE | {"output_tokens": 1},
    }
    assert events == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ]


def test_the_events_of_a_call():
    begin, end = HERMES.tag("f")
    _, *events = streamed([f"I look.\n{begin}", '{"a"', ": 1}", end], tools=HERMES)
    call_id = events[3]["content_block"]["id"]
    assert call_id.startswith("toolu_")
    assert events[2:-2] == [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": call_id, "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_stop", "index": 1},
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_calls(style):
    text = style.call("get_weather", PARIS) + style.separator + style.call("get_time", ROME)
    message = whole(text, tools=style)
    first, second = message["content"]
    assert (first["type"], first["name"], first["input"]) == ("tool_use", "get_weather", {"city": "Paris"})
    assert (second["name"], second["input"]) == ("get_time", json.loads(ROME))
    assert first["id"] != second["id"]
    assert message["stop_reason"] == "tool_use"


def test_a_cut_call_has_no_input():
    begin, _ = HERMES.tag("f")
    message = whole(f'{begin}{{"a": ', ending("length"), tools=HERMES)
    assert message["stop_reason"] == "max_tokens"
    assert [block["input"] for block in message["content"]] == [{}]


def test_a_cut_output_is_called_that_whatever_calls_it_holds():
    assert whole(HERMES.call("f", "{}"), ending("length"), tools=HERMES)["stop_reason"] == "max_tokens"


def test_text_behind_a_call_is_a_block_of_its_own():
    message = whole(f"A\n{HERMES.call('f', '{}')}\nB", tools=HERMES)
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "text"]


def test_a_thought_is_a_block_if_it_is_shown():
    text = f"<think>\nHm.\n</think>\n\nYes.\n{HERMES.call('f', PARIS)}"
    shown = whole(text, tools=HERMES, reasoning=ReasoningFormat(), shows_thoughts=True)["content"]
    assert shown[0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    assert [block["type"] for block in shown] == ["thinking", "text", "tool_use"]
    hidden = whole(text, tools=HERMES, reasoning=ReasoningFormat())["content"]
    assert [block["type"] for block in hidden] == ["text", "tool_use"]
    assert hidden[0]["text"] == "Yes."


def test_the_events_of_a_thought():
    pieces = ["<think>", "\nHm", " so.", "\n</th", "ink>\n\n", "Yes."]
    events = streamed(pieces, reasoning=ReasoningFormat(), shows_thoughts=True)
    assert events[1:7] == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": " so."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Yes."}},
    ]
    hidden = streamed(pieces, reasoning=ReasoningFormat())
    assert [event["delta"] for event in hidden if event["type"] == "content_block_delta"] == [
        {"type": "text_delta", "text": "Yes."}
    ]


parts = ["Yes. ", "<tool_call>", "é", HERMES.call("f", PARIS), HERMES.call("g", ROME), "\n", "<think>", "</think>"]
options = st.fixed_dictionaries(
    {
        "tools": st.sampled_from([HERMES, None]),
        "reasoning": st.sampled_from([None, ReasoningFormat(), ReasoningFormat(is_opened=True)]),
        "shows_thoughts": st.booleans(),
    }
)


@given(st.lists(st.sampled_from(parts)).map("".join), st.lists(st.integers(0, 200)), options)
def test_events_add_up_to_the_message_however_the_text_is_cut(text, cuts, options):
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(places)]
    message = accumulated(streamed(pieces, **options))
    assert without_ids(message) == without_ids(whole(text, **options))
