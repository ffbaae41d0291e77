"""Which format a chat template teaches, and what a call looks like in it."""

import json

import pytest

from shared.tool_format import HERMES, LLAMA3, tool_format

QWEN = "{%- if tools %}...return a json object within <tool_call></tool_call> XML tags{% endif %}"
LLAMA_31 = "{{- '<|python_tag|>' + tool_call.name }}"
LLAMA_32 = """{{- '{"name": function name, "parameters": dictionary of argument name and its value}.' }}"""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, HERMES),
        ("{{ messages }}", HERMES),
        (QWEN, HERMES),
        (LLAMA_31, LLAMA3),
        (LLAMA_32, LLAMA3),
        ("{{- 'Environment: ipython\\n' }}", LLAMA3),
        (LLAMA_31 + QWEN, HERMES),  # a Llama that was taught Hermes' way
    ],
)
def test_the_format_of_a_template(template, expected):
    assert tool_format(template) is expected


def test_a_call_in_each_format():
    assert HERMES.call("f", "{}") == '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert LLAMA3.call("f", "{}") == '{"name": "f", "parameters": {}}'


@pytest.mark.parametrize("style", [HERMES, LLAMA3])
def test_a_tag_is_what_a_trigger_begins_and_json_is_inside(style):
    begin, end = style.tag("get_weather")
    assert begin.startswith(style.triggers)
    inside = f"{begin}{{}}{end}".removeprefix(style.opening).removesuffix(style.closing)
    assert json.loads(inside) == {"name": "get_weather", style.arguments_key: {}}
