"""The bound side of a link: the gateway's front, the scheduler's hub. The protocol is described in `shared.link`."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from shared import wire
from shared.complaints import Complaints
from shared.decoding import Malformed, Reader
from shared.link_terms import HEARTBEAT_S, NO_GRANT, SECRET_FOLLOWS, Joined, Left, OnEvent, Received, no_progress
from shared.transport import Transport, Unreachable

MAX_PEERS = 1024
MAX_HELLOS = 5  # of one dialler between two beats


@dataclass
class _Peer:
    role: wire.Role
    route: bytes
    grant: bytes
    reader: Reader
    heard_s: float


class BoundLink:
    """Decodes each peer's messages as what its role may say, and nothing else.

    Args:
        accepts: the union of messages for each role that may dial in (wire.FRONT_ACCEPTS, wire.HUB_ACCEPTS).
        identity: this process's own, told in the Welcome.
        silence_s: a peer that was not heard of for so long has left.
    """

    def __init__(
        self,
        transport: Transport,
        endpoint: str,
        accepts: dict[wire.Role, Any],
        on_event: OnEvent,
        *,
        identity: str,
        progress: Callable[[], wire.Progress] = no_progress,
        silence_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._readers = {role: Reader(union) for role, union in accepts.items()}
        self._on_event = on_event
        self._identity = identity
        self._progress = progress
        self._silence_s = silence_s
        self._clock = clock
        self._peers: dict[str, _Peer] = {}
        self._grants = 0
        self._hellos: Counter[bytes] = Counter()  # by route, since the last beat
        self._complaints = Complaints(clock)
        self._encoder = msgspec.msgpack.Encoder()
        self._hello_reader = Reader(wire.Hello)
        self._beat_s = float("-inf")
        self._socket = transport.bind(endpoint, self._on_frames)

    def send(self, peer: str, message: wire.Message) -> bool:
        """Send, or find out that the peer is lost: then False, and `Left` follows."""
        if peer not in self._peers:
            return False
        try:
            self._socket.send(self._peers[peer].route, [self._encoder.encode(message)])
        except Unreachable as error:
            reason = str(error)
            self._transport.defer(lambda: self._lose(peer, reason))
            return False
        return True

    def peers(self, role: wire.Role) -> list[str]:
        return [name for name, peer in self._peers.items() if peer.role == role]

    def tick(self) -> None:
        """Heartbeats out, silent peers away. Call at least twice a second."""
        now = self._clock()
        for name in [name for name, peer in self._peers.items() if now - peer.heard_s > self._silence_s]:
            self._lose(name, f"silent for {self._silence_s:g} s")
        if now - self._beat_s >= HEARTBEAT_S:
            self._beat_s = now
            self._hellos.clear()
            beat = wire.Heartbeat(self._progress())
            for name in list(self._peers):
                self.send(name, beat)
        self._complaints.tick()

    def drop(self, peer: str, reason: str) -> None:
        """Treat a peer as lost although it still speaks; it may say Hello again."""
        if peer in self._peers:
            self._answer(self._peers[peer].route, wire.Reset())
            self._lose(peer, reason)

    def close(self) -> None:
        self._socket.close()

    @property
    def complaints(self) -> int:
        """How often somebody said what cannot be."""
        return self._complaints.count

    def _on_frames(self, route: bytes, frames: list[bytes], role: wire.Role | None) -> None:
        name = _name_in(route)
        if name is None or len(frames) != 2:
            self._complaints.note(route, "no name" if name is None else f"{len(frames)} frames")
            return
        grant, payload = frames
        if grant == NO_GRANT:
            self._on_hello(name, route, payload, role)
            return
        peer = self._peers.get(name)
        if peer is None or peer.route != route or peer.grant != grant:
            self._answer(route, wire.Reset())
            return
        try:
            message = peer.reader.read(payload)
        except Malformed as error:
            self._complaints.note(name, str(error))
            self.drop(name, f"malformed message: {error}")
            return
        peer.heard_s = self._clock()
        self._on_event(Received(name, message))

    def _on_hello(self, name: str, route: bytes, payload: bytes, role: wire.Role | None) -> None:
        if (reason := self._no_room(name, route)) is not None:
            self._complaints.note(name, reason)
            return
        try:
            hello = self._hello_reader.read(payload)
        except Malformed as error:
            self._refuse(route, f"malformed Hello: {error}")
            return
        if (reason := self._objection(hello, role)) is not None:
            self._refuse(route, reason)
            return
        self._lose(name, "said Hello again")
        self._grants += 1
        grant = self._grants.to_bytes(8, "big")
        self._peers[name] = _Peer(hello.role, route, grant, self._readers[hello.role], self._clock())
        self._answer(route, wire.Welcome(self._grants, self._identity))
        self._on_event(Joined(name, hello))

    def _no_room(self, name: str, route: bytes) -> str | None:
        """Why a Hello is left unanswered: it may be said again."""
        self._hellos[route] += 1
        if self._hellos[route] > MAX_HELLOS:
            return "too many Hellos"
        held = self._peers.get(name)
        if held is None:
            return "too many peers" if len(self._peers) >= MAX_PEERS else None
        return None if held.route == route else "its name is in use"

    def _objection(self, hello: wire.Hello, role: wire.Role | None) -> str | None:
        """Why this process is not accepted, ever."""
        if hello.protocol != wire.PROTOCOL:
            return f"protocol {hello.protocol} of {hello.name} does not match protocol {wire.PROTOCOL} here"
        if hello.role not in self._readers:
            return f"a {hello.role} has no business here"
        if role is not None and role != hello.role:
            return f"{hello.name} claims the role of {hello.role}, and its key stands for {role}"
        return None

    def _refuse(self, route: bytes, reason: str) -> None:
        self._complaints.note(route.partition(SECRET_FOLLOWS)[0], reason)
        self._answer(route, wire.Refused(reason))

    def _answer(self, route: bytes, message: wire.Message) -> None:
        with contextlib.suppress(Unreachable):  # it will ask again, or is gone
            self._socket.send(route, [self._encoder.encode(message)])

    def _lose(self, name: str, reason: str) -> None:
        if self._peers.pop(name, None) is not None:
            self._on_event(Left(name, reason))


def _name_in(route: bytes) -> str | None:
    name = route.partition(SECRET_FOLLOWS)[0]
    return name.decode("ascii") if name and all(0x20 <= byte < 0x7F for byte in name) else None
