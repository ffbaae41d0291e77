"""Bytes from a link to messages: by type, and never more than the speaker may say at once.

Whatever the bytes are, the outcome is a message or `Malformed`. Knows msgpack's traps, no socket.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from shared import wire
from shared.complaints import printable


class Malformed(Exception):
    """Too long, or not what may be said. The words are fit for a log."""


class Reader:
    """Args:
    accepts: a message, or the union of those that may come.
    """

    def __init__(self, accepts: Any) -> None:
        self._max_bytes = wire.max_bytes(accepts)
        self._decoder = msgspec.msgpack.Decoder(accepts, ext_hook=_refuse_extension)

    def read(self, payload: bytes) -> Any:
        """Raises Malformed."""
        if len(payload) > self._max_bytes:
            raise Malformed(f"{len(payload)} bytes where {self._max_bytes} are the most")
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError) as error:  # the latter for what is nested too deeply
            raise Malformed(printable(str(error))) from error


def _refuse_extension(code: int, data: memoryview) -> NoReturn:
    raise msgspec.DecodeError(f"an extension type, {code}")
