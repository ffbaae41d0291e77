"""ZeroMQ sockets on an asyncio loop: frames in through a callback, frames out at once or not at all.

Knows the library. Does not know which options a socket needs: those are `shared.transport`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import zmq
import zmq.utils.z85

from shared import wire
from shared.complaints import Complaints

DRAIN_BATCH = 64  # messages handled before the event loop gets its turn
ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # where the library asks
MISFIT = "a handshake that does not fit: other keys than here, keys on one side alone, or no link at all"

# the sender's identity, its frames, and its role if its key has proved that
OnRouterFrames = Callable[[bytes, list[bytes], wire.Role | None], None]
OnDealerFrames = Callable[[list[bytes]], None]


class Unreachable(Exception):
    """The peer is gone, not there yet, or has stopped reading."""


class _Socket(ABC):
    """A socket's descriptor only signals changes of state, so after each event and each send we look for ourselves."""

    def __init__(self, raw: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._raw = raw
        self._loop = loop
        self._drain_scheduled = False
        self._descriptor = int(raw.getsockopt(zmq.FD))
        loop.add_reader(self._descriptor, self._drain)
        self._drain_soon()

    def close(self) -> None:
        if self._raw.closed:
            return
        self._loop.remove_reader(self._descriptor)
        self._raw.close()

    def _send(self, frames: Sequence[bytes]) -> None:
        if self._raw.closed:
            raise Unreachable("closed")
        try:
            self._raw.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again as error:
            raise Unreachable("it is gone, or has stopped reading") from error
        except zmq.ZMQError as error:
            raise Unreachable(error.strerror) from error
        finally:
            self._drain_soon()

    def _drain_soon(self) -> None:
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._loop.call_soon(self._drain_scheduled_now)

    def _drain_scheduled_now(self) -> None:
        self._drain_scheduled = False
        self._drain()

    def _drain(self) -> None:
        for _ in range(DRAIN_BATCH):
            if self._raw.closed:
                return
            try:
                self._receive()
            except zmq.Again:
                return
        self._drain_soon()

    @abstractmethod
    def _receive(self) -> None:
        """Take in one message, if there is one. Raises zmq.Again."""


class ZmqRouter(_Socket):
    """Args:
    has_keys: whoever comes in was let in by a `Doorkeeper`, who has written down the role.
    """

    def __init__(
        self, raw: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop, on_frames: OnRouterFrames, *, has_keys: bool
    ) -> None:
        self._on_frames = on_frames
        self._has_keys = has_keys
        super().__init__(raw, loop)

    def send(self, identity: bytes, frames: Sequence[bytes]) -> None:
        self._send([identity, *frames])

    def _receive(self) -> None:
        first = self._raw.recv(zmq.NOBLOCK, copy=False)
        role: Any = first.get("User-Id") if self._has_keys else None
        self._on_frames(first.bytes, self._raw.recv_multipart(), role)


class ZmqDealer(_Socket):
    def __init__(self, raw: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop, on_frames: OnDealerFrames) -> None:
        self._on_frames = on_frames
        super().__init__(raw, loop)

    def send(self, frames: Sequence[bytes]) -> None:
        self._send(frames)

    def _receive(self) -> None:
        self._on_frames(self._raw.recv_multipart(zmq.NOBLOCK))


class Doorkeeper(_Socket):
    """Answers the library's question (ZAP, ZeroMQ RFC 27) whether a key may come in, with the role it stands for."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], loop: asyncio.AbstractEventLoop, roles: dict[bytes, wire.Role]
    ) -> None:
        raw = context.socket(zmq.REP)
        raw.setsockopt(zmq.LINGER, 0)
        raw.bind(ZAP_ENDPOINT)
        self._roles = roles
        self._complaints = Complaints(time.monotonic)
        super().__init__(raw, loop)

    def _receive(self) -> None:
        version, request_id, _, address, _, _, *credentials = self._raw.recv_multipart(zmq.NOBLOCK)
        key = zmq.utils.z85.encode(credentials[0]) if credentials else b""
        role = self._roles.get(key)
        if role is None:
            self._complaints.note(address, f"a key that is not listed: {key.decode()}")
            self._send([version, request_id, b"400", b"not listed", b"", b""])
        else:
            self._send([version, request_id, b"200", b"OK", role.encode(), b""])


class Handshakes(_Socket):
    """Complains of who comes to a bound socket and does not get through. Keys that are not listed: see `Doorkeeper`."""

    def __init__(self, bound: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop, endpoint: str) -> None:
        self._endpoint = endpoint
        self._complaints = Complaints(time.monotonic)
        super().__init__(bound.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL), loop)

    def _receive(self) -> None:
        self._raw.recv_multipart(zmq.NOBLOCK)  # the library does not say who it was
        self._complaints.note(self._endpoint, MISFIT)
