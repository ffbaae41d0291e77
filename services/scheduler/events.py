"""What goes into the scheduler's core and what comes out of it. The core knows nothing else of the world."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from shared import wire
from shared.link import Joined, Left, Received


class Tick(msgspec.Struct, frozen=True):
    """Time passes. Several a second."""

    now_s: float  # monotonic


class Send(msgspec.Struct, frozen=True):
    peer: str
    message: wire.Message


class Drop(msgspec.Struct, frozen=True):
    """Treat the peer as lost, although it still speaks. Its `Left` follows."""

    peer: str
    reason: str


class Note(msgspec.Struct, frozen=True):
    """A line for the log."""

    event: str
    fields: dict[str, Any]


Event: TypeAlias = Joined | Left | Received | Tick
Command: TypeAlias = Send | Drop | Note
