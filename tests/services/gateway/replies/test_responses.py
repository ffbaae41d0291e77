"""A response's items and events, however the text is cut into pieces, read by OpenAI's own types."""

import itertools
import json

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.reply import ReplyHead
from services.gateway.replies.responses import ResponseReply
from shared import wire
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import HERMES, LLAMA3
from tests.support import replies

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
ECHO = {"background": False, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
STYLES = [HERMES, LLAMA3]
THINKING = [None, ReasoningFormat(), ReasoningFormat(is_opened=True)]
PARIS, ROME = '{"city": "Paris"}', '{"city": "Ro\\"}</tool_call>"}'
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


def reply(style=None, reasoning=None, **more):
    return ResponseReply(HEAD, echo=ECHO, tools=style, reasoning=reasoning, **more)


def ending(finish_reason="stop"):
    return Ending(Usage(5, 3, 4), 1, "tokenizer-1", finish_reason)


def deltas_of(pieces):
    """One token a piece, each with its log-probability."""
    return [
        Delta(text, (place,), Usage(5, 3, place + 1), (wire.TextLogprob(place, -0.5 * place, b"%d" % place),))
        for place, text in enumerate(pieces)
    ]


def whole(text, style=None, finish_reason="stop", reasoning=None):
    body = replies.whole(reply(style, reasoning), deltas_of([text]), ending(finish_reason))
    Response.model_validate(json.loads(json.dumps(body, allow_nan=False)), strict=True)
    return body


def streamed(pieces, style=None, finish_reason="stop", reasoning=None):
    events = replies.events(reply(style, reasoning), deltas_of(pieces), ending(finish_reason))
    for event in events:
        EVENT.validate_python(json.loads(json.dumps(event, allow_nan=False)), strict=True)
    return events


def rebuilt(events):
    """The items, from nothing but what each event adds; and every `done` repeats what came before it."""
    items = []
    for event in events:
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert event["output_index"] == len(items)
                items.append(json.loads(json.dumps(event["item"])))
                assert items[-1]["status"] == "in_progress"
            case "content_part.added":
                items[event["output_index"]]["content"].append(dict(event["part"]))
            case "output_text.delta":
                part = items[event["output_index"]]["content"][event["content_index"]]
                part["text"] += event["delta"]
                part["logprobs"] = part["logprobs"] + event["logprobs"]
            case "reasoning_text.delta":
                items[event["output_index"]]["content"][0]["text"] += event["delta"]
            case "function_call_arguments.delta":
                items[event["output_index"]]["arguments"] += event["delta"]
            case "output_text.done" | "reasoning_text.done" | "content_part.done":
                part = items[event["output_index"]]["content"][event["content_index"]]
                assert event.get("part", part) == part
                assert event.get("text", part["text"]) == part["text"]
            case "function_call_arguments.done":
                assert event["arguments"] == items[event["output_index"]]["arguments"]
            case "output_item.done":
                items[event["output_index"]]["status"] = event["item"]["status"]
                assert event["item"] == items[event["output_index"]]
        if "item_id" in event:
            assert event["item_id"] == items[event["output_index"]]["id"]
    return items


def without_ids(items):
    kept = ("type", "status", "name", "arguments")
    texts = [[part["text"] for part in item.get("content", ())] for item in items]
    return [{key: item[key] for key in kept if key in item} for item in items], texts


def pieces_of(text, cuts):
    return [text[begin:end] for begin, end in itertools.pairwise([0, *sorted(cuts), len(text)])]


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
@given(st.sampled_from(STYLES), st.sampled_from(THINKING), st.data())
def test_events_add_up_to_the_whole(finish_reason, style, reasoning, data):
    calls = style.call("f", PARIS) + style.separator + style.call("g", ROME)
    thoughts = (
        "" if reasoning is None else data.draw(st.sampled_from(["", "<think>\nHm.\n</think>\n\n", "Hm.</think>"]))
    )
    said = data.draw(st.sampled_from(["", "Well.\n", "a <b> "]))
    text = thoughts + said + calls + data.draw(st.sampled_from(["", " Done."]))
    text = text[: data.draw(st.integers(1, len(text)))]
    pieces = pieces_of(text, data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    events = streamed(pieces, style, finish_reason, reasoning)
    (final,) = [event["response"] for event in events if event["type"] in ("response.completed", "response.incomplete")]
    assert rebuilt(events) == final["output"]
    assert without_ids(final["output"]) == without_ids(whole(text, style, finish_reason, reasoning)["output"])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    ids = [item["id"] for item in final["output"]]
    assert len(set(ids)) == len(ids)


def test_text_around_a_call_is_messages():
    text = "I look." + HERMES.call("f", PARIS) + "Then I go."
    assert [item["type"] for item in whole(text, HERMES)["output"]] == ["message", "function_call", "message"]


def test_thoughts_are_an_item_of_their_own():
    text = "<think>Shall I?</think>I look." + HERMES.call("f", PARIS)
    thought, message, call = whole(text, HERMES, reasoning=ReasoningFormat())["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Shall I?"}]
    assert (thought["type"], thought["status"], thought["summary"]) == ("reasoning", "completed", [])
    assert (message["content"][0]["text"], call["name"]) == ("I look.", "f")
    assert whole(text, HERMES)["output"][0]["type"] == "message"


def test_an_output_without_words_is_an_empty_message():
    (item,) = whole("")["output"]
    assert item["content"][0]["text"] == ""
    (item,) = rebuilt(streamed([]))
    assert (item["status"], item["content"][0]["text"]) == ("completed", "")


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_call_that_is_cut_is_incomplete(finish_reason):
    response = whole(HERMES.call("f", PARIS)[:-20], HERMES, finish_reason)
    assert response["output"][0]["status"] == "incomplete"
    assert response["status"] == {"stop": "completed", "length": "incomplete"}[finish_reason]


@given(st.lists(st.sampled_from(["a", "", "b c", " "]), max_size=6))
def test_every_tokens_logprobs_come_once(pieces):
    events = streamed(pieces)
    said = [entry["token"] for event in events if event["type"].endswith("text.delta") for entry in event["logprobs"]]
    assert said == [str(place) for place in range(len(pieces))]
    (done,) = [event for event in events if event["type"].endswith("text.done")]
    assert [entry["token"] for entry in done["logprobs"]] == said


def test_its_end_is_told_before_the_client_is():
    told = []
    events = replies.events(reply(on_end=told.append), deltas_of(["Hi"]), ending())
    assert told == [events[-1]["response"]]


def test_what_is_cancelled_or_fails_keeps_what_has_come():
    one = reply()
    one.events(0, deltas_of(["Hi"])[0])
    one.cancel()
    response = one.response()
    assert (response["status"], response["output"][0]["status"], response["usage"]) == ("cancelled", "incomplete", None)
    one = reply()
    one.fail(wire.Error("too many", "overloaded", status=429))
    response = one.response()
    assert (response["status"], response["output"]) == ("failed", [])
    assert response["error"] == {"code": "rate_limit_exceeded", "message": "too many", "param": None}
