"""What the process that compiles is asked and what it answers, and how both go through a pipe.

Knows the shapes and the framing: a length of four bytes, then msgpack.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, TypeAlias

import msgspec

from shared import wire
from shared.config import ConstraintsConfig

LENGTH = struct.Struct(">I")


class Job(msgspec.Struct, frozen=True, array_like=True):
    constraint: wire.Constraint
    caps: ConstraintsConfig


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Said once, when jobs may come."""

    resident_bytes: int = 0  # of the process


class Done(msgspec.Struct, frozen=True, array_like=True, tag=True):
    text: str  # of the grammar, as the engine takes it
    resident_bytes: int = 0  # of the process, by now


class Wrong(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The client's mistake."""

    message: str
    path: tuple[str | int, ...] = ()


class TooComplex(msgspec.Struct, frozen=True, array_like=True, tag=True):
    message: str


class Interrupted(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """It took too long, or somebody has ended it: perhaps because of the machine, so it says little of the source."""

    message: str


class Broken(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Our mistake: nothing is known of the source."""

    message: str


Answer: TypeAlias = Done | Wrong | TooComplex | Interrupted | Broken


def out_of_memory(caps: ConstraintsConfig) -> TooComplex:
    size = caps.compile_memory_bytes // 1024**2
    return TooComplex(f"the constraint is too complex: compiling it takes over {size} MiB")


encode = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(Job).decode
_answers: msgspec.msgpack.Decoder[Ready | Answer] = msgspec.msgpack.Decoder(Ready | Answer)
decode_answer = _answers.decode


def framed(message: Job | Ready | Answer) -> bytes:
    payload = encode(message)
    return LENGTH.pack(len(payload)) + payload


def read_frame(stream: BinaryIO) -> bytes | None:
    """None at the end of the stream."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (count,) = LENGTH.unpack(head)
    payload = stream.read(count)
    return payload if len(payload) == count else None
