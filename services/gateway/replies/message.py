"""An assistant's message, whole or as the deltas of a stream.

Knows whether its text is searched for calls, and whether thoughts are set apart in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from services.gateway.generation import Ending
from services.gateway.replies.output_text import OutputText
from services.gateway.replies.reply import Json
from services.gateway.replies.thoughts import Thoughts
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat


class MessageText:
    """The text of one message. Either `whole` is called, once, or `deltas` for each piece and then `last_deltas`."""

    def __init__(self, tools: ToolFormat | None, reasoning: ReasoningFormat | None = None) -> None:
        self._thoughts = Thoughts(reasoning)
        self._text = OutputText(tools)
        # What a delta without words holds: with tools the content may yet be null, and null it stays.
        self.empty_delta: Json = {} if tools is not None else {"content": ""}
        self.first_delta: Json = {"role": "assistant", "content": None if tools is not None else ""}

    def whole(self, text: str) -> Json:
        said, held = self._thoughts.feed(text), self._thoughts.finish()
        events = [*self._text.feed(said.answer + held.answer), *self._text.finish()]
        return _gathered(events) | _reasoning(said.thought + held.thought)

    def deltas(self, text: str) -> list[Json]:
        said = self._thoughts.feed(text)
        return _told(said.thought) + _deltas(self._text.feed(said.answer))

    def last_deltas(self) -> list[Json]:
        held = self._thoughts.finish()
        return _told(held.thought) + _deltas([*self._text.feed(held.answer), *self._text.finish()])

    def finish_reason(self, ending: Ending) -> str | None:
        """A cut output is called that, whatever calls it holds."""
        return "tool_calls" if ending.finish_reason == "stop" and self._text.has_calls else ending.finish_reason


def _reasoning(thought: str) -> Json:
    return {"reasoning_content": thought} if thought else {}


def _told(thought: str) -> list[Json]:
    return [_reasoning(thought)] if thought else []


def _gathered(events: Sequence[Event]) -> Json:
    content, calls = "", []
    for event in events:
        match event:
            case Content():
                content += event.text
            case CallStarted():
                calls.append(_opened(event))
            case Arguments():
                calls[event.index]["function"]["arguments"] += event.text
            case CallEnded():
                pass
            case _:
                assert_never(event)
    message: Json = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
    return message | {"tool_calls": calls} if calls else message


def _deltas(events: Sequence[Event]) -> list[Json]:
    return [delta for event in events if (delta := _delta(event)) is not None]


def _delta(event: Event) -> Json | None:
    match event:
        case Content():
            return {"content": event.text}
        case CallStarted():
            return {"tool_calls": [{"index": event.index} | _opened(event)]}
        case Arguments():
            return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}
        case CallEnded():
            return None
        case _:
            assert_never(event)


def _opened(call: CallStarted) -> Json:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
