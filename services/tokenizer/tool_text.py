"""Functions, calls and their results as plain text, for chat templates that know nothing of them. In Qwen's words.

The functions are explained in the system message: at its end, or in a new first one, before which a default text of the
template gives way. Where a template takes no system message, the first user's message begins with them. A call is text
of the assistant's, and the results of calls are a turn of the user's. Knows messages; does not know templates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from shared import wire
from shared.tool_format import ToolFormat

EXPLANATION = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments, like this:
{example}"""


class ToolText:
    """Args:
    style: how the model is asked to write its calls.
    in_system: the template takes a system message.
    """

    def __init__(self, style: ToolFormat, *, in_system: bool) -> None:
        self._style = style
        self._role = "system" if in_system else "user"

    def rewrite(
        self, messages: Sequence[wire.ChatMessage], tools: Sequence[dict[str, Any]] | None
    ) -> list[wire.ChatMessage]:
        """The same conversation in messages that any template can show."""
        plain = list(self._turns(messages))
        return self._explained(plain, self._explanation(tools)) if tools else plain

    def _explanation(self, tools: Sequence[dict[str, Any]]) -> str:
        return EXPLANATION.format(
            signatures="\n".join(map(_json, tools)),
            example=self._style.call("<function-name>", "<args-json-object>"),
        )

    def _explained(self, messages: list[wire.ChatMessage], explanation: str) -> list[wire.ChatMessage]:
        if not messages or messages[0].role != self._role:
            return [wire.ChatMessage(self._role, explanation), *messages]
        first, *rest = messages
        parts = (first.content, explanation) if self._role == "system" else (explanation, first.content)
        content = "\n\n".join(part for part in parts if part)
        return [wire.ChatMessage(first.role, content, first.extra), *rest]

    def _turns(self, messages: Sequence[wire.ChatMessage]) -> Iterator[wire.ChatMessage]:
        for is_tool, turn in groupby(messages, key=lambda message: message.role == "tool"):
            if is_tool:
                yield wire.ChatMessage("user", "\n".join(map(_result, turn)))
            else:
                yield from map(self._said, turn)

    def _said(self, message: wire.ChatMessage) -> wire.ChatMessage:
        if not (calls := message.extra.get("tool_calls")):
            return message
        written = self._style.separator.join(self._call(call["function"]) for call in calls)
        content = f"{message.content}\n{written}" if message.content else written
        extra = {key: value for key, value in message.extra.items() if key != "tool_calls"}
        return wire.ChatMessage(message.role, content, extra)

    def _call(self, function: dict[str, Any]) -> str:
        arguments = function["arguments"]  # text if it is no JSON object
        return self._style.call(function["name"], arguments if isinstance(arguments, str) else _json(arguments))


def _result(message: wire.ChatMessage) -> str:
    return f"<tool_response>\n{message.content}\n</tool_response>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
