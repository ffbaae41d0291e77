"""What both sides of a link have in common: its events, its rhythm and its names."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from shared import wire

HEARTBEAT_S = 0.5

NO_GRANT = b""
SECRET_FOLLOWS = b"/"  # in a route, behind the name


class Joined(msgspec.Struct, frozen=True):
    """The peer is there, fresh: whatever an earlier link with it had under way is void."""

    peer: str
    hello: wire.Hello | None = None  # what the dialler said; None on the dialling side


class Left(msgspec.Struct, frozen=True):
    peer: str
    reason: str


class Received(msgspec.Struct, frozen=True):
    peer: str
    message: Any


LinkEvent = Joined | Left | Received
OnEvent = Callable[[LinkEvent], None]


def new_identity() -> str:
    return secrets.token_hex(8)


def no_progress() -> wire.Progress:
    return wire.Progress()
