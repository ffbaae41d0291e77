"""Functions, calls and results in messages that any template can show."""

import json

from hypothesis import given
from hypothesis import strategies as st

from services.tokenizer.tool_text import ToolText
from shared import wire
from shared.tool_format import HERMES, LLAMA3

TOOLS = (
    {"type": "function", "function": {"name": "w", "description": "It's {weather} <é>"}},
    {"type": "function", "function": {"name": "v"}},
)
HELLO = wire.ChatMessage("user", "Hello", {"name": "Ishmael"})


def rewrite(*messages, tools=None, style=HERMES, in_system=True):
    return ToolText(style, in_system=in_system).rewrite(messages, tools)


def called(*calls, content="", **extra):
    functions = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return wire.ChatMessage("assistant", content, {"tool_calls": functions, **extra})


def result(content):
    return wire.ChatMessage("tool", content, {"tool_call_id": "1"})


def test_what_has_nothing_to_do_with_tools_stays_as_it_is():
    messages = (wire.ChatMessage("system", "S"), HELLO, wire.ChatMessage("assistant", "A"))
    assert rewrite(*messages) == list(messages)
    assert rewrite(*messages, tools=()) == list(messages)


def test_functions_are_explained_one_a_line_with_an_example():
    system, user = rewrite(HELLO, tools=TOOLS)
    assert (system.role, user) == ("system", HELLO)
    before, _, behind = system.content.partition("<tools>\n")
    lines, _, after = behind.partition("\n</tools>")
    assert [json.loads(line) for line in lines.split("\n")] == list(TOOLS)
    assert "é" in lines
    assert before.startswith("# Tools\n")
    assert after.endswith(HERMES.call("<function-name>", "<args-json-object>"))
    (other, _) = rewrite(HELLO, tools=TOOLS, style=LLAMA3)
    assert other.content.endswith('\n{"name": "<function-name>", "parameters": <args-json-object>}')


def test_they_follow_a_system_message_that_is_there():
    system, user = rewrite(wire.ChatMessage("system", "Be brief."), HELLO, tools=TOOLS)
    assert system.content.startswith("Be brief.\n\n# Tools\n")
    assert user == HELLO
    assert rewrite(wire.ChatMessage("system", ""), HELLO, tools=TOOLS) == rewrite(HELLO, tools=TOOLS)


def test_without_system_messages_they_stand_before_what_the_user_says():
    (user,) = rewrite(HELLO, tools=TOOLS, in_system=False)
    assert (user.role, user.extra) == ("user", HELLO.extra)
    assert user.content.startswith("# Tools\n")
    assert user.content.endswith("\n\nHello")
    first, second = rewrite(wire.ChatMessage("assistant", "A"), tools=TOOLS, in_system=False)
    assert (first.role, second.content) == ("user", "A")


def test_calls_are_the_assistants_text():
    (alone,) = rewrite(called(("w", {"city": "Köln"}), name="bot"))
    assert alone == wire.ChatMessage("assistant", HERMES.call("w", '{"city": "Köln"}'), {"name": "bot"})
    (two,) = rewrite(called(("w", {}), ("v", {"a": 1}), content="Let me see."))
    assert two.content == f"Let me see.\n{HERMES.call('w', '{}')}\n" + HERMES.call("v", '{"a": 1}')
    (llama,) = rewrite(called(("w", {}), ("v", {})), style=LLAMA3)
    assert llama.content == '{"name": "w", "parameters": {}}; {"name": "v", "parameters": {}}'


def test_arguments_that_are_no_object_are_shown_as_they_came():
    (message,) = rewrite(called(("w", '{"city": "Par')))
    assert '"arguments": {"city": "Par}' in message.content


def test_results_that_follow_each_other_are_one_turn_of_the_user():
    turns = rewrite(result("a"), result("b"), wire.ChatMessage("assistant", "A"), result("c"))
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>"),
        ("assistant", "A"),
        ("user", "<tool_response>\nc\n</tool_response>"),
    ]


arguments = st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers(), max_size=2)


@given(st.lists(st.tuples(st.sampled_from(["w", "v"]), arguments), min_size=1, max_size=3))
def test_calls_can_be_read_back(calls):
    (turn,) = rewrite(called(*calls))
    written = turn.content.removeprefix(HERMES.opening).removesuffix(HERMES.closing)
    found = [json.loads(text) for text in written.split(f"{HERMES.closing}\n{HERMES.opening}")]
    assert [(call["name"], call["arguments"]) for call in found] == calls
