"""A stream says what the whole reply says: by the model in many scripts, and for tokens that are cut anywhere."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.detokenizer.core import Core, Send
from services.detokenizer.vocabulary import Vocabulary
from services.gateway.generation import Ending, GenerateRequest, merge
from services.gateway.open_request import OpenRequest
from services.gateway.replies.chat import ChatReply
from services.gateway.replies.completions import CompletionReply
from services.gateway.replies.native import NativeOptions, NativeReply
from services.gateway.replies.openai import StreamOptions
from services.gateway.replies.reply import ReplyHead
from shared import wire
from shared.tool_format import HERMES
from tests.services.detokenizer.test_stop_patterns import expected
from tests.support import replies
from tests.support.deployment import sse
from tests.support.scripts_of_the_world import PROMPTS

TOKENS = 24

# --- the model -------------------------------------------------------------------------------------------------------


def native(prompt, stop):
    sampling = {"max_new_tokens": TOKENS, "temperature": 0, "stop": stop}
    return "/generate", {"text": prompt, "sampling_params": sampling}


def completion(prompt, stop):
    return "/v1/completions", {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stop": stop}


def chat(prompt, stop):
    messages = [{"role": "user", "content": prompt}]
    return "/v1/chat/completions", {"messages": messages, "max_tokens": TOKENS, "temperature": 0, "stop": stop}


def whole_text(server, path, body):
    reply = server.post(path, body)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    if path == "/generate":
        return answer["text"]
    [choice] = answer["choices"]
    return choice["text"] if "text" in choice else choice["message"]["content"]


def streamed_text(server, path, body):
    with httpx.stream("POST", f"{server.url}{path}", json=body | {"stream": True}, timeout=120) as reply:
        assert reply.status_code == 200
        events = list(sse(reply.iter_lines()))
    if path == "/generate":
        return events[-1]["text"]
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.soak)], ids=["sample", "all"])
def test_the_model_says_the_same_in_a_stream(server, stride):
    """Also up to a stop string: six characters of its own, wherever its tokens begin."""
    for number, prompt in enumerate(PROMPTS[::stride]):
        ask = (native, completion, chat)[number % 3]
        whole = whole_text(server, *ask(prompt, []))
        assert streamed_text(server, *ask(prompt, [])) == whole, prompt
        stop = whole[len(whole) // 3 :][:6]
        if stop:
            before = whole.partition(stop)[0]
            assert whole_text(server, *ask(prompt, [stop])) == before, prompt
            assert streamed_text(server, *ask(prompt, [stop])) == before, prompt


@pytest.mark.parametrize("pattern", ["[,.] [A-Z]?[a-z]{2}", r"(?i)\bis\b", "[^ ]+ [^ ]+ "])
@pytest.mark.parametrize("ask", [native, completion, chat])
def test_a_pattern_ends_what_the_model_says(server, ask, pattern):
    path, body = ask("The sky is blue. The grass is", [])
    shown, is_stopped = expected(whole_text(server, path, body), [pattern])
    assert is_stopped
    fields = body["sampling_params"] if path == "/generate" else body
    fields["stop_regex"] = pattern
    assert whole_text(server, path, body) == streamed_text(server, path, body) == shown


def test_what_a_pattern_matched_can_stay_and_the_pattern_is_named(server):
    path, body = native("1, 2, 3, 4,", [])
    body["sampling_params"] |= {"stop_regex": [r"\d\d", "x+"], "no_stop_trim": True}
    answer = server.post(path, body).json()
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": r"\d\d"}
    assert answer["text"][-2:].isdigit()
    assert not answer["text"][:-2].isdigit()


# --- tokens that are cut anywhere ------------------------------------------------------------------------------------

CALL = '<tool_call>\n{"name": "f", "arguments": {"x": "é好"}}\n</tool_call>'
PARTS = ["a", "b,c", "好", "e\u0301", "👩‍👧", "שלום", "\n\n", " ", "<tool", CALL, "END", "�"]
HEAD = ReplyHead("r", "tiny", 0, lambda: 0.0)

texts = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
options = st.builds(
    wire.TextOptions,
    stop=st.lists(st.sampled_from(["END", "b,c", "\n\n", "好e", "👧", "l>"]), max_size=2).map(tuple),
    include_stop=st.booleans(),
    stop_regex=st.sampled_from([(), ("E.D",), ("[好l]\\W",), ("\\s+$",)]),
)


@st.composite
def divided(draw, items):
    """The items in consecutive runs, none of them empty."""
    places = range(1, len(items))
    some = st.sets(st.sampled_from(places)) if places else st.just(())
    cuts = sorted(draw(st.one_of(some, st.just(places))))
    return [items[start:end] for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True)]


def generated(tokens, runs, text_options):
    """What comes of these tokens, of which each run arrives at once: the pieces of output, and the ending.

    Args:
    tokens: the bytes of each.
    """
    core = Core(Vocabulary(tokens))
    core.gateway_joined("gw")
    core.open(wire.Open("r", 1, "gw", text_options, logprobs=True))
    sampling = wire.Sampling(1, logprobs=True)
    held = OpenRequest("r", GenerateRequest(prompt="x", sampling=sampling, text=text_options), 0, 0)
    deltas = []
    for number, run in enumerate(runs):
        update = wire.TokenUpdate(
            *("gw", "r", 1, run[0], tuple(run), wire.Counts(3, 1)),
            logprobs=tuple(wire.TokenLogprob(token_id, -0.5, ((token_id, -0.5),)) for token_id in run),
            finish_reason="length" if number == len(runs) - 1 else None,
        )
        for command in core.take(update):
            if isinstance(command, Send):
                deltas.append(held.absorb(command.update, 0))
                last = command.update
    return deltas, Ending(held.usage, 1, None, last.finish_reason, last.matched_stop)


@st.composite
def generations(draw):
    """A text as tokens, which are any divisions of its bytes; twice the same ones, arriving in different runs."""
    text = draw(texts.filter(bool))
    tokens = draw(divided(text.encode()))
    text_options = draw(options)
    ids = list(range(len(tokens)))
    return text, text_options, [generated(tokens, draw(divided(ids)), text_options) for _ in range(2)]


both_of = generations().map(lambda drawn: drawn[2])


@settings(max_examples=500)
@given(both=both_of, has_logprobs=st.booleans(), tools=st.sampled_from([None, HERMES]))
def test_a_chat(both, has_logprobs, tools):
    def reply():
        return ChatReply(HEAD, options=StreamOptions(), has_logprobs=has_logprobs, tools=tools)

    whole = replies.whole(reply(), *both[0])["choices"][0]
    choices = [event["choices"][0] for event in replies.events(reply(), *both[1])]
    message = {"content": "", "tool_calls": []}
    for choice in choices:
        message["content"] += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls", ()):
            if call["index"] == len(message["tool_calls"]):
                message["tool_calls"].append(call["function"] | {"arguments": ""})
            message["tool_calls"][call["index"]]["arguments"] += call["function"].get("arguments", "")
    assert message["content"] == (whole["message"]["content"] or "")
    assert message["tool_calls"] == [call["function"] for call in whole["message"].get("tool_calls", ())]
    assert choices[-1]["finish_reason"] == whole["finish_reason"]
    entries = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    assert entries == (whole["logprobs"]["content"] if has_logprobs else [])


@settings(max_examples=500)
@given(both=both_of, has_logprobs=st.booleans())
def test_a_completion(both, has_logprobs):
    def reply():
        return CompletionReply(HEAD, options=StreamOptions(), has_logprobs=has_logprobs)

    whole = replies.whole(reply(), *both[0])["choices"][0]
    choices = [event["choices"][0] for event in replies.events(reply(), *both[1])]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert choices[-1]["finish_reason"] == whole["finish_reason"]
    scored = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    for key, values in (whole["logprobs"] or {}).items():
        assert [value for each in scored for value in each[key]] == values
    assert bool(scored) == has_logprobs


@settings(max_examples=500)
@given(both=both_of, has_logprobs=st.booleans())
def test_a_native_reply(both, has_logprobs):
    def reply():
        given_options = NativeOptions(None, has_logprobs, has_logprobs, True)
        return NativeReply(HEAD, options=[given_options], is_list=False)

    *_, last = replies.events(reply(), *both[1])
    assert last == replies.whole(reply(), *both[0])


@settings(max_examples=500)
@given(generations())
def test_all_before_a_stop_is_said_and_nothing_behind_it(drawn):
    text, text_options, both = drawn
    shown = expected(text, text_options.stop_regex, text_options.stop, include=text_options.include_stop)
    for deltas, ending in both:
        assert (merge(deltas).text, ending.finish_reason == "stop") == shown
        assert not any("�" in delta.text for delta in deltas if "�" not in text)
