"""Finds calls of functions in the text that a model writes, piece by piece.

How the text is cut into pieces changes nothing about what the events say together. Text that may become a call is held
back, and is content if it does not, where there may be any. Does not know which functions there are, or whether
arguments obey their schema.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Literal

from services.gateway.tool_calls.arguments import ObjectScanner
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from services.gateway.tool_calls.syntax import CallSyntax
from shared.tool_format import ToolFormat

Reading = Generator[Event, None, bool]  # whether there may be more to read, for the next stage


def new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


class CallParser:
    """One output. White space around calls is no content; elsewhere it is."""

    def __init__(self, style: ToolFormat, new_id: Callable[[], str] = new_call_id) -> None:
        self.complete_calls = 0
        self._has_free_text = style.has_free_text
        self._syntax = CallSyntax(style)
        self._new_id = new_id
        self._stage: Literal["text", "arguments", "tail"] = "text"
        self._unread = ""
        self._spaces = ""  # at the end of what was read: content if text follows
        self._is_after_call = False  # nothing but what stands between two calls has come since
        self._scanner = ObjectScanner()

    def feed(self, text: str) -> list[Event]:
        self._unread += text
        return list(self._read())

    def finish(self) -> list[Event]:
        """The output ends here, so what was held back is no call."""
        if not self._has_free_text:  # it was a part of one
            return []
        unread = self._take(len(self._unread))
        events: list[Event] = [] if self._stage == "tail" else list(self._say(unread))
        if self._spaces and not self._is_after_call:
            events.append(Content(self._spaces))
        return events

    def _read(self) -> Iterator[Event]:
        more = True
        while more:
            match self._stage:
                case "text":
                    more = yield from self._read_text()
                case "arguments":
                    more = yield from self._read_arguments()
                case "tail":
                    more = self._read_tail()

    def _read_text(self) -> Reading:
        head = self._syntax.head.search(self._unread)
        if head is None:
            yield from self._say(self._take(self._begin_of_head()))
            return False
        yield from self._say(self._take(head.start()))
        self._take(len(head[0]))
        self._spaces = ""
        self._scanner = ObjectScanner()
        self._stage = "arguments"
        yield CallStarted(self.complete_calls, self._new_id(), head["name"])
        return True

    def _begin_of_head(self) -> int:
        begun = self._syntax.begun_head.search(self._unread)
        assert begun is not None
        return begun.start()

    def _read_arguments(self) -> Reading:
        end = self._scanner.end(self._unread)
        if text := self._take(len(self._unread) if end is None else end):
            yield Arguments(self.complete_calls, text)
        if end is None:
            return False
        yield CallEnded(self.complete_calls)
        self.complete_calls += 1
        self._stage = "tail"
        return True

    def _read_tail(self) -> bool:
        tail = self._syntax.tail.match(self._unread)
        if tail is None and self._syntax.begun_tail.match(self._unread):
            return False
        self._take(tail.end() if tail else 0)  # what should end the call and does not is content
        self._is_after_call = True
        self._stage = "text"
        return True

    def _say(self, text: str) -> Iterator[Content]:
        text = self._spaces + text
        is_gap = self._is_after_call and not text.strip(self._syntax.between)
        said = "" if is_gap else text.rstrip()
        self._spaces = text[len(said) :]
        if said:
            self._is_after_call = False
            yield Content(said)

    def _take(self, length: int) -> str:
        taken, self._unread = self._unread[:length], self._unread[length:]
        return taken
