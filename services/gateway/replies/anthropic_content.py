"""The content blocks of a message of Anthropic's, whole or as the events of a stream."""

from __future__ import annotations

import secrets
from typing import Literal, assert_never

import msgspec

from services.gateway.replies.output_text import OutputText
from services.gateway.replies.reply import Json
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from shared.tool_format import ToolFormat


def new_tool_use_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


class ContentBlocks:
    """Either `whole` is called, once, or `events` for each piece and then `last_events`."""

    def __init__(self, tools: ToolFormat | None) -> None:
        self._text = OutputText(tools, new_tool_use_id)
        self._begun = 0  # blocks
        self._open: Literal["text", "tool_use"] | None = None  # the last one, until it ends

    @property
    def has_calls(self) -> bool:
        return self._text.has_calls

    def whole(self, text: str) -> list[Json]:
        blocks: list[Json] = []
        arguments = ""
        for event in [*self._text.feed(text), *self._text.finish()]:
            match event:
                case Content():
                    if not blocks or blocks[-1]["type"] != "text":
                        blocks.append(_text(""))
                    blocks[-1]["text"] += event.text
                case CallStarted():
                    blocks.append(_tool_use(event))
                    arguments = ""
                case Arguments():
                    arguments += event.text
                case CallEnded():
                    blocks[-1]["input"] = _input(arguments)
                case _:
                    assert_never(event)
        return blocks

    def events(self, text: str) -> list[Json]:
        return [told for event in self._text.feed(text) for told in self._told(event)]

    def last_events(self) -> list[Json]:
        said = [told for event in self._text.finish() for told in self._told(event)]
        return [*said, *self._stop()]

    def _told(self, event: Event) -> list[Json]:
        match event:
            case Content():
                opening = [] if self._open == "text" else self._start("text", _text(""))
                return [*opening, self._delta({"type": "text_delta", "text": event.text})]
            case CallStarted():
                return self._start("tool_use", _tool_use(event))
            case Arguments():
                return [self._delta({"type": "input_json_delta", "partial_json": event.text})]
            case CallEnded():
                return self._stop()
            case _:
                assert_never(event)

    def _start(self, kind: Literal["text", "tool_use"], block: Json) -> list[Json]:
        ended = self._stop()
        self._open = kind
        self._begun += 1
        return [*ended, {"type": "content_block_start", "index": self._begun - 1, "content_block": block}]

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._begun - 1, "delta": delta}

    def _stop(self) -> list[Json]:
        if self._open is None:
            return []
        self._open = None
        return [{"type": "content_block_stop", "index": self._begun - 1}]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _tool_use(call: CallStarted) -> Json:
    """Without its input yet; where that is cut it stays empty."""
    return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}


def _input(arguments: str) -> msgspec.Raw | Json:
    """As it was written, so that its numbers stay what they are."""
    try:
        return msgspec.json.decode(arguments, type=msgspec.Raw)
    except msgspec.MsgspecError:
        return {}
