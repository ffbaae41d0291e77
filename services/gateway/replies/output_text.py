"""The text of one output as what it turns out to be: content and, where it is searched for them, calls."""

from __future__ import annotations

from collections.abc import Callable

from services.gateway.tool_calls.events import Content, Event
from services.gateway.tool_calls.parser import CallParser, new_call_id
from shared.tool_format import ToolFormat


class OutputText:
    """`feed` for each piece, or for the whole, and then `finish`.

    Args:
        tools: how calls are written, if the text is to be searched for calls.
    """

    def __init__(self, tools: ToolFormat | None, new_id: Callable[[], str] = new_call_id) -> None:
        self._parser = CallParser(tools, new_id) if tools is not None else None

    def feed(self, text: str) -> list[Event]:
        if self._parser is not None:
            return self._parser.feed(text)
        return [Content(text)] if text else []

    def finish(self) -> list[Event]:
        return self._parser.finish() if self._parser is not None else []

    @property
    def has_calls(self) -> bool:
        """So far: complete ones."""
        return self._parser is not None and self._parser.complete_calls > 0
