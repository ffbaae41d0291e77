"""The content blocks of a message of Anthropic's, whole or as the events of a stream."""

from __future__ import annotations

import secrets
from typing import Literal, TypeAlias, assert_never

import msgspec

from services.gateway.replies.output_text import OutputText
from services.gateway.replies.reply import Json
from services.gateway.replies.thoughts import Said, Thoughts
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat

Kind: TypeAlias = Literal["thinking", "text", "tool_use"]


def new_tool_use_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"


class ContentBlocks:
    """Either `whole` is called, once, or `events` for each piece and then `last_events`.

    Args:
        tools: how calls are written, if the text is to be searched for calls.
        reasoning: how thoughts are set apart, if the model may think.
        shows_thoughts: else they are left out.
    """

    def __init__(self, tools: ToolFormat | None, reasoning: ReasoningFormat | None, *, shows_thoughts: bool) -> None:
        self._thoughts = Thoughts(reasoning)
        self._shows_thoughts = shows_thoughts
        self._text = OutputText(tools, new_tool_use_id)
        self._begun = 0  # blocks
        self._open: Kind | None = None  # the last one, until it ends

    @property
    def has_calls(self) -> bool:
        return self._text.has_calls

    def whole(self, text: str) -> list[Json]:
        said, held = self._thoughts.feed(text), self._thoughts.finish()
        thought = said.thought + held.thought if self._shows_thoughts else ""
        blocks = [_thinking(thought)] if thought else []
        arguments = ""
        for event in [*self._text.feed(said.answer + held.answer), *self._text.finish()]:
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
        return self._told_of(self._thoughts.feed(text))

    def last_events(self) -> list[Json]:
        held = self._told_of(self._thoughts.finish())
        return [*held, *(told for event in self._text.finish() for told in self._told(event)), *self._stop()]

    def _told_of(self, said: Said) -> list[Json]:
        return [
            *self._thought(said.thought),
            *(told for event in self._text.feed(said.answer) for told in self._told(event)),
        ]

    def _thought(self, thought: str) -> list[Json]:
        if not thought or not self._shows_thoughts:
            return []
        opening = [] if self._open == "thinking" else self._start("thinking", _thinking(""))
        return [*opening, self._delta({"type": "thinking_delta", "thinking": thought})]

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

    def _start(self, kind: Kind, block: Json) -> list[Json]:
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


def _thinking(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": ""}


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
