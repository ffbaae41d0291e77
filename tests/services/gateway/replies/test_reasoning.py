"""Thoughts in chat replies, whole and streamed."""

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.openapi.replies import ChatCompletion, ChatCompletionChunk
from services.gateway.replies.chat import ChatReply
from services.gateway.replies.openai import StreamOptions
from services.gateway.replies.reply import ReplyHead
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import HERMES
from tests.support import replies

HEAD = ReplyHead("abc", "tiny", 1700000000, lambda: 1.5)
CALL = HERMES.call("f", '{"a": 1}')
THINKS, IN_THOUGHT = ReasoningFormat(), ReasoningFormat(is_opened=True)
ENDING = Ending(Usage(5, 3, 40), 1, "tokenizer-1", "stop")


def reply(**options):
    return ChatReply(HEAD, options=StreamOptions(), has_logprobs=False, **options)


def deltas_of(pieces):
    return [Delta(text, (place,), Usage(5, 3, place + 1)) for place, text in enumerate(pieces)]


def whole(text, **options):
    body = replies.whole(reply(**options), deltas_of([text]), ENDING)
    msgspec.convert(body, ChatCompletion)
    return body["choices"][0]["message"]


def deltas(pieces, **options):
    chunks = replies.events(reply(**options), deltas_of(pieces), ENDING)
    msgspec.convert(chunks, list[ChatCompletionChunk])
    return [chunk["choices"][0]["delta"] for chunk in chunks]


def plain(message):
    calls = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    return message.get("reasoning_content", ""), message["content"] or "", calls


def accumulated(pieces, **options):
    thought, content, calls = "", "", []
    for delta in deltas(pieces, **options):
        assert not (delta.get("reasoning_content") and (content or calls))
        thought += delta.get("reasoning_content", "")
        content += delta.get("content") or ""
        for call in delta.get("tool_calls", []):
            calls += [""] if "id" in call else []
            calls[-1] += call["function"]["arguments"]
    return thought, content, calls


def test_a_thought_is_no_content():
    assert whole("<think>\nHm.\n</think>\n\nYes.", reasoning=THINKS) == {
        "role": "assistant",
        "content": "Yes.",
        "refusal": None,
        "reasoning_content": "Hm.",
    }
    assert whole("Hm.</think>Yes.", reasoning=IN_THOUGHT)["reasoning_content"] == "Hm."


def test_without_a_thought_a_message_is_as_always():
    for text in ("Yes.", "<think></think>Yes."):
        assert whole(text, reasoning=THINKS) == {"role": "assistant", "content": "Yes.", "refusal": None}
    assert whole("<think>Hm.</think>Yes.")["content"] == "<think>Hm.</think>Yes."


def test_a_cut_thought_leaves_no_content():
    assert plain(whole("<think>Hm", reasoning=THINKS)) == ("Hm", "", [])


def test_calls_after_a_thought():
    message = whole(f"<think>Hm, {CALL}</think>\n\n{CALL}", reasoning=THINKS, tools=HERMES)
    assert plain(message) == (f"Hm, {CALL}", "", ['{"a": 1}'])


def test_the_deltas_of_a_thought():
    pieces = ["<think>\n", "Hm", ".\n", "</think>\n\n", "Yes", "."]
    assert deltas(pieces, reasoning=THINKS) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Hm"},
        {"reasoning_content": "."},
        {"content": "Yes"},
        {"content": "."},
        {},
    ]


parts = ["Yes. ", "<think>", "</think>", "<", "/", "\n", "é", CALL, "<tool_call>"]


@given(
    st.lists(st.sampled_from(parts)).map("".join),
    st.lists(st.integers(0, 200)),
    st.sampled_from([THINKS, IN_THOUGHT]),
    st.sampled_from([None, HERMES]),
)
def test_deltas_add_up_to_the_message_however_the_text_is_cut(text, cuts, reasoning, tools):
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    pieces = [text[begin:end] for begin, end in itertools.pairwise(places)]
    options = {"reasoning": reasoning, "tools": tools}
    assert accumulated(pieces, **options) == plain(whole(text, **options))


def test_each_choice_has_its_own():
    one = reply(reasoning=THINKS, samples=2)
    for index, text in [(0, "<think>A"), (1, "<think>B"), (0, "</think>a"), (1, "</think>b")]:
        (*_, chunk) = one.events(index, deltas_of([text])[0])
        (choice,) = chunk["choices"]
        assert choice["index"] == index
        expected = {"reasoning_content": "AB"[index]} if "<think>" in text else {"content": "ab"[index]}
        assert choice["delta"] == expected
