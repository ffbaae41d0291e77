"""What the journal is told and what it decides: events in, commands out. Wire messages that say all are events too."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from services.gateway.generation import Delta, Ending, GenerateRequest
from shared import wire


class Opened(msgspec.Struct, frozen=True):
    """A client asks. `expires_s` is on the clock of the ticks."""

    request_id: str
    request: GenerateRequest
    expires_s: float
    trace_id: str = ""


class ClientGone(msgspec.Struct, frozen=True):
    request_id: str


class Aborted(msgspec.Struct, frozen=True):
    """Of all requests that this tenant calls so: their clients are there, and keep what they have got."""

    tenant: str
    client_id: str


class Stopping(msgspec.Struct, frozen=True):
    """This gateway ends now: so does all that is open."""


class Tick(msgspec.Struct, frozen=True):
    now_s: float


class TokenizerJoined(msgspec.Struct, frozen=True):
    peer: str
    name: str


class TokenizerLeft(msgspec.Struct, frozen=True):
    peer: str


class TokenizerReady(msgspec.Struct, frozen=True):
    peer: str
    credits: int


class EncodedBy(msgspec.Struct, frozen=True):
    peer: str
    message: wire.Encoded


class EncodeFailedBy(msgspec.Struct, frozen=True):
    peer: str
    message: wire.EncodeFailed


class HubJoined(msgspec.Struct, frozen=True):
    """Under a new grant: it knows nothing of what was submitted before."""

    peer: str


class HubLeft(msgspec.Struct, frozen=True):
    peer: str


class HubProgressed(msgspec.Struct, frozen=True):
    """The scheduler's count of work done, from its heartbeat."""

    last_seq: int


Event: TypeAlias = (
    Opened
    | ClientGone
    | Aborted
    | Stopping
    | Tick
    | TokenizerJoined
    | TokenizerLeft
    | TokenizerReady
    | EncodedBy
    | EncodeFailedBy
    | HubJoined
    | HubLeft
    | HubProgressed
    | wire.Accepted
    | wire.Rejected
    | wire.Lost
    | wire.TextUpdate
)


class ToTokenizer(msgspec.Struct, frozen=True):
    peer: str
    message: wire.Encode


class ToHub(msgspec.Struct, frozen=True):
    peer: str
    message: wire.Submit | wire.Abort | wire.Audit


class Retrying(msgspec.Struct, frozen=True):
    """For the log: the attempt before this one was lost, and why."""

    request_id: str
    attempt: int
    reason: str
    trace_id: str = ""


class Deliver(msgspec.Struct, frozen=True):
    request_id: str
    delta: Delta


class Finish(msgspec.Struct, frozen=True):
    """The only one of its request, and the last command about it towards the client."""

    request_id: str
    ending: Ending


Command: TypeAlias = ToTokenizer | ToHub | Retrying | Deliver | Finish
