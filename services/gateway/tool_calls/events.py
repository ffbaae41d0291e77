"""What a model's text turns out to be: content, and calls that begin, go on and end."""

from __future__ import annotations

import msgspec


class Content(msgspec.Struct, frozen=True):
    text: str


class CallStarted(msgspec.Struct, frozen=True):
    index: int  # of the call in its reply, from 0
    call_id: str
    name: str


class Arguments(msgspec.Struct, frozen=True):
    """The next piece of a call's arguments. All pieces together are one JSON object, unless the output was cut."""

    index: int
    text: str


class CallEnded(msgspec.Struct, frozen=True):
    """Its arguments are complete."""

    index: int


Event = Content | CallStarted | Arguments | CallEnded
