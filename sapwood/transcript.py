"""The text of a program as a list of parts, and what is read from it: a prompt, messages, text. Pure.

A text program has no roles; the prompt is its text. In a chat program every part stands in a message, and the prompt
is the messages: the last one is gone on with if it is the assistant's and not empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from sapwood.backends.protocol import Message, Prompt
from sapwood.deferred import Deferred

ASSISTANT = "assistant"


class Opened(msgspec.Struct, frozen=True):
    """A message begins here."""

    role: str
    tool_call_id: str | None = None


class Closed(msgspec.Struct, frozen=True):
    pass


Part: TypeAlias = str | Deferred | Opened | Closed


def deferred_in(parts: Sequence[Part]) -> list[Deferred]:
    return [part for part in parts if isinstance(part, Deferred)]


def prompt_of(parts: Sequence[Part]) -> tuple[Prompt, bool]:
    """What a generation at the end goes on from, and whether it goes on with the last message. All values are there."""
    if not has_roles(parts):
        return text_of(parts), False
    messages = messages_of(parts)
    is_open = not isinstance(parts[-1], Closed)
    if is_open and messages[-1] == Message(ASSISTANT, "") and len(messages) > 1:
        return tuple(messages[:-1]), False
    return tuple(messages), is_open


def messages_of(parts: Sequence[Part]) -> list[Message]:
    """Of a chat program. All values are there."""
    written: list[tuple[Opened, list[str]]] = []
    for part in parts:
        if isinstance(part, Opened):
            written.append((part, []))
        else:
            written[-1][1].append(_text(part))
    return [Message(opened.role, "".join(texts), opened.tool_call_id) for opened, texts in written]


def text_of(parts: Sequence[Part]) -> str:
    """Of a chat program, a line for each message that begins with its role. All values are there."""
    return "".join(
        _heading(part, place) if isinstance(part, Opened) else _text(part) for place, part in enumerate(parts)
    )


def pieces_of(parts: Iterable[Part]) -> Iterator[str]:
    """What joins to the text, values as they come."""
    for place, part in enumerate(parts):
        match part:
            case Deferred():
                yield from part.pieces()
            case Opened():
                yield _heading(part, place)
            case str():
                yield part
            case Closed():
                pass


def has_roles(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Opened) for part in parts)


def _heading(part: Opened, place: int) -> str:
    return f"{part.role}: " if place == 0 else f"\n{part.role}: "


def _text(part: Part) -> str:
    match part:
        case str():
            return part
        case Deferred():
            return part.outcome().text
        case Opened() | Closed():
            return ""
