"""When thoughts are told apart, and what templates are told of thinking."""

from dataclasses import replace

import msgspec
import pytest

from services.gateway.errors import ApiError
from services.gateway.schemas.anthropic import read_anthropic, read_count
from services.gateway.schemas.chat import read_chat
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import HERMES
from tests.support.gateway_terms import LIMITS, TERMS

HELLO = {"role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
SWITCHED = ReasoningFormat(is_opened=True, switch="enable_thinking")
THINKING = replace(TERMS, reasoning=SWITCHED)


def chat_reasoning(terms=THINKING, **fields):
    call = read_chat(msgspec.json.encode({"messages": [HELLO], **fields}), terms)
    return call.reply.keywords["reasoning"]


def anthropic(thinking, terms=THINKING, **fields):
    body = {"model": "tiny", "max_tokens": 50, "messages": [HELLO], "thinking": thinking, **fields}
    call = read_anthropic(msgspec.json.encode(body), terms)
    return call.parts[0].request.template_options, call.reply.keywords


def test_thoughts_are_told_apart_where_the_model_thinks():
    assert chat_reasoning() == SWITCHED
    assert chat_reasoning(TERMS) is None
    assert chat_reasoning(separate_reasoning=False) is None


@pytest.mark.parametrize(
    ("fields", "is_opened"),
    [
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"messages": [HELLO, {"role": "assistant", "content": "<think>Hm"}], "continue_final_message": True}, True),
        ({"messages": [HELLO, {"role": "assistant", "content": "Yes"}], "continue_final_message": True}, False),
    ],
)
def test_whether_the_output_begins_in_a_thought(fields, is_opened):
    assert chat_reasoning(**fields).is_opened == is_opened


def test_what_must_be_of_a_form_holds_no_thoughts():
    assert chat_reasoning(regex="a+") is None
    assert chat_reasoning(tools=TOOLS, tool_choice="required") is None
    assert chat_reasoning(tools=TOOLS) == SWITCHED
    assert chat_reasoning(tools=TOOLS, tool_choice="none") == SWITCHED


def test_an_earlier_thought_may_be_sent_back():
    said = [HELLO, {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}, HELLO]
    call = read_chat(msgspec.json.encode({"messages": said}), THINKING)
    assert call.parts[0].request.messages[1].extra == {"reasoning_content": "Hm"}


@pytest.mark.parametrize(
    ("thinking", "variables", "is_shown"),
    [
        (None, None, False),
        ({"type": "disabled"}, {"enable_thinking": False}, False),
        ({"type": "enabled", "budget_tokens": 2000}, {"enable_thinking": True}, True),
        ({"type": "enabled", "display": "omitted"}, {"enable_thinking": True}, False),
        ({"type": "adaptive"}, None, True),
    ],
)
def test_anthropics_thinking(thinking, variables, is_shown):
    options, reply = anthropic(thinking)
    assert options.get("chat_template_kwargs") == variables
    assert reply["shows_thoughts"] == is_shown
    assert reply["reasoning"].is_opened == (variables != {"enable_thinking": False})


def test_a_template_without_a_switch_is_told_nothing():
    options, reply = anthropic({"type": "disabled"}, replace(TERMS, reasoning=ReasoningFormat(is_opened=True)))
    assert (options, reply["shows_thoughts"]) == ({}, False)


def test_the_clients_own_variables_come_first():
    options, _ = anthropic({"type": "disabled"}, chat_template_kwargs={"enable_thinking": True})
    assert options["chat_template_kwargs"] == {"enable_thinking": True}


def test_thinking_counts():
    body = {"model": "tiny", "messages": [HELLO], "thinking": {"type": "disabled"}}
    question = read_count(msgspec.json.encode(body), LIMITS, HERMES, SWITCHED)
    assert question.template_options == {"chat_template_kwargs": {"enable_thinking": False}}


def test_a_model_that_does_not_think_refuses_to():
    with pytest.raises(ApiError) as caught:
        anthropic({"type": "enabled"}, TERMS)
    assert caught.value.error.param == "thinking.type"
    assert anthropic({"type": "adaptive"}, TERMS)[1]["reasoning"] is None
