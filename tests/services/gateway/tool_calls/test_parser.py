"""Calls found in text, in any format, however the text is cut, and nothing lost where there is none."""

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content
from services.gateway.tool_calls.parser import CallParser, new_call_id
from shared.tool_format import HERMES, LLAMA3

STYLES = [HERMES, LLAMA3]
WEATHER = '{"city": "Paris", "days": [1, {"a": "}"}]}'
TRICKY = '{"a": "</tool_call>}\\"}", "b": "<tool_call>\\n{\\"name\\": \\"x\\"", "c\\\\": {"d": {}}}'


def events(style, pieces):
    counter = itertools.count()
    parser = CallParser(style, lambda: f"call-{next(counter)}")
    return [event for piece in pieces for event in parser.feed(piece)] + parser.finish()


def outcome(found):
    """What events say together: the content, each call's name, id and arguments, and which are complete."""
    content = "".join(event.text for event in found if isinstance(event, Content))
    calls = [[event.name, event.call_id, ""] for event in found if isinstance(event, CallStarted)]
    for event in found:
        if isinstance(event, Arguments):
            calls[event.index][2] += event.text
    return content, [tuple(call) for call in calls], [event.index for event in found if isinstance(event, CallEnded)]


def read(style, text):
    return outcome(events(style, [text]))


@pytest.fixture(params=STYLES, ids=lambda style: style.name)
def style(request):
    return request.param


def test_a_call_alone(style):
    assert events(style, [style.call("get_weather", WEATHER)]) == [
        CallStarted(0, "call-0", "get_weather"),
        Arguments(0, WEATHER),
        CallEnded(0),
    ]


def test_several_calls_with_text_in_front(style):
    text = "Let me look. \n\n" + style.separator.join([style.call("f", WEATHER), style.call("g-2", "{}")]) + "\n"
    assert read(style, text) == ("Let me look.", [("f", "call-0", WEATHER), ("g-2", "call-1", "{}")], [0, 1])


def test_text_behind_and_between_calls_keeps_its_spaces(style):
    text = f"{style.call('f', '{}')}\n then \n{style.call('g', '{}')} done \n"
    content, calls, ended = read(style, text)
    assert (content, len(calls), ended) == ("\n then done \n", 2, [0, 1])


def test_where_there_is_no_free_text_the_head_of_a_cut_call_is_none(style):
    calls_only = structs.replace(style, has_free_text=False)
    begin, _ = style.tag("f")
    first = style.call("f", WEATHER) + style.separator
    for end in range(len(begin) + 1):
        assert read(calls_only, begin[:end]) == ("", [], [])
        assert read(calls_only, first + begin[:end]) == ("", [("f", "call-0", WEATHER)], [0])
    assert read(calls_only, begin + '{"a')[:2] == ("", [("f", "call-0", '{"a')])


def test_what_is_inside_strings_is_arguments(style):
    assert read(style, style.call("f", TRICKY)) == ("", [("f", "call-0", TRICKY)], [0])
    assert json.loads(TRICKY)["a"] == '</tool_call>}"}'


def test_spaces_around_the_arguments_belong_to_nobody(style):
    begin, end = style.tag("f")
    assert read(style, f'{begin} {{ "a":  1 }}\n {end}') == ("", [("f", "call-0", '{ "a":  1 }')], [0])


def test_arguments_come_as_they_are_written(style):
    begin, end = style.tag("f")
    parser = CallParser(style, lambda: "id")
    assert parser.feed(begin) == []
    assert parser.feed('{"a": ') == [CallStarted(0, "id", "f"), Arguments(0, '{"a": ')]
    assert parser.complete_calls == 0
    assert parser.feed('"b"}') == [Arguments(0, '"b"}'), CallEnded(0)]
    assert parser.complete_calls == 1
    assert parser.feed(end) + parser.finish() == []


def test_only_what_may_become_a_call_is_held_back(style):
    parser = CallParser(style)
    assert parser.feed("a <b> {c}") == [Content("a <b> {c}")]
    assert parser.feed(" " + style.trigger[:-1]) == []
    assert parser.feed("!") == [Content(f" {style.trigger[:-1]}!")]
    assert parser.finish() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "plain text \n",
        "a < b, <tool> and <tool_cal",
        "<tool_call>",
        "<tool_call>\nnothing</tool_call>",
        '<tool_call>\n{"name": "f"',
        '<tool_call>\n{"name": "two words", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": 5}\n</tool_call>',
        '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
        '{"name": "f", "parameters": [1]}',
        '{"name": "f", "param',
        '{"name": ; ',
        "; a;",
    ],
)
def test_what_is_no_call_is_content_to_the_last_character(style, text):
    assert outcome(events(style, [text])) == (text, [], [])
    assert outcome(events(style, text)) == (text, [], [])


def test_a_broken_call_does_not_hide_the_next_one(style):
    begin, _ = style.tag("f")
    assert read(style, f"{begin}? {style.call('g', '{}')}") == (f"{begin}?", [("g", "call-0", "{}")], [0])


def test_every_cut_leaves_what_came(style):
    begin, _ = style.tag("f")
    whole = style.call("f", TRICKY)
    for length in range(len(whole)):
        content, calls, ended = read(style, whole[:length])
        if length <= len(begin):
            assert (content, calls) == (whole[:length], [])
        else:
            assert (content, calls) == ("", [("f", "call-0", whole[len(begin) : length][: len(TRICKY)])])
        assert ended == ([0] if length >= len(begin) + len(TRICKY) else [])


def test_a_call_that_does_not_end_as_it_should_is_a_call_with_content_behind_it(style):
    begin, _ = style.tag("f")
    assert read(style, f"{begin}{{}}, what") == (", what", [("f", "call-0", "{}")], [0])


SNIPPETS = st.sampled_from(
    [
        *(style.call("f", arguments) for style in STYLES for arguments in ("{}", WEATHER, TRICKY)),
        *(style.tag("g")[0] for style in STYLES),
        *(style.separator for style in STYLES),
        *(style.after_arguments() for style in STYLES),
        *("<tool_call>", "</tool_call>", "<", "{", "}", '{"name": ', '"', "\\", ";", " ", "\n", "text", "é"),
    ]
)


@st.composite
def cut_texts(draw):
    text = "".join(draw(st.lists(SNIPPETS, max_size=8)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(text)])]


@given(st.sampled_from(STYLES), cut_texts())
def test_cuts_change_nothing(style, pieces):
    whole = read(style, "".join(pieces))
    assert outcome(events(style, pieces)) == whole
    assert outcome(events(style, "".join(pieces))) == whole


@given(st.sampled_from(STYLES), cut_texts())
def test_events_are_in_order(style, pieces):
    kinds = "".join(type(event).__name__[4 if isinstance(event, CallEnded) else 0] for event in events(style, pieces))
    assert re.fullmatch("(C|CA+E)*(CA+)?", kinds)


@given(st.sampled_from(STYLES), st.text(alphabet='<tool_ca>/{"name: f\n;}', max_size=60))
def test_text_without_a_trigger_is_content_unchanged(style, text):
    if style.trigger not in text:
        assert read(style, text) == (text, [], [])


def test_ids_are_unlike():
    ids = {new_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("call_[0-9a-f]{24}", call_id) for call_id in ids)
