"""How a model writes calls of functions into its text. Which way it was taught is read from its chat template.

Knows the text around a call's name and arguments. Does not know the arguments' schema, or how calls are found in text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

LLAMA3_MARKS = ("<|python_tag|>", "Environment: ipython", '"parameters": dictionary of argument name')


class ToolFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A call is `opening`, a JSON object of a name and its arguments, `closing`.

    A function's name is written as it is, so it may hold only what needs no escape in JSON.
    """

    name: Literal["hermes", "llama3"]
    opening: str
    closing: str
    arguments_key: Literal["arguments", "parameters"]
    trigger: str  # what no free text may hold: here a call begins
    separator: str  # between two calls
    has_free_text: bool = True  # before, between and after calls

    @property
    def triggers(self) -> tuple[str, ...]:
        return (self.trigger,)

    def before_name(self) -> str:
        return f'{self.opening}{{"name": "'

    def before_arguments(self) -> str:
        """From the end of the name to the arguments."""
        return f'", "{self.arguments_key}": '

    def after_arguments(self) -> str:
        return f"}}{self.closing}"

    def tag(self, function_name: str) -> tuple[str, str]:
        """What stands before and after the arguments of a call of this function."""
        return f"{self.before_name()}{function_name}{self.before_arguments()}", self.after_arguments()

    def call(self, function_name: str, arguments: str) -> str:
        """A whole call. The arguments are JSON text."""
        begin, end = self.tag(function_name)
        return f"{begin}{arguments}{end}"


HERMES = ToolFormat(
    name="hermes",
    opening="<tool_call>\n",
    closing="\n</tool_call>",
    arguments_key="arguments",
    trigger="<tool_call>",
    separator="\n",
)
LLAMA3 = ToolFormat(
    name="llama3",
    opening="",
    closing="",
    arguments_key="parameters",
    trigger='{"name": ',
    separator="; ",
)


def tool_format(chat_template: str | None) -> ToolFormat:
    """The format that the template teaches. One that teaches neither gets Hermes'."""
    template = chat_template or ""
    if HERMES.trigger in template:
        return HERMES
    return LLAMA3 if any(mark in template for mark in LLAMA3_MARKS) else HERMES
