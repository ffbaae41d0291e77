"""The link protocol over `shared.transport`: Hello, Welcome, grants, Reset, heartbeats; typed messages in and out.

A `BoundLink` (gateway front, scheduler hub) and a `DialledLink` (everyone else) look the same to a service: call
`send(peer, message)`, get `Joined`, `Left` and `Received` through `on_event`, call `tick()` now and then. A peer is
named by the identity that its process drew at start. No clock of another machine is involved: order comes from
grants, and a grant is only a number that the bound side increases.

What travels towards a bound side is [grant, payload], and back [payload].
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from shared import wire
from shared.transport import DealerSocket, Transport, Unreachable

HELLO_RETRY_S = 1.0
HEARTBEAT_S = 0.5

NO_GRANT = b""


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


def _no_progress() -> wire.Progress:
    return wire.Progress()


@dataclass
class _Peer:
    role: wire.Role
    grant: bytes
    decoder: msgspec.msgpack.Decoder[Any]
    heard_s: float


class BoundLink:
    """The bound side. Decodes each peer's messages as what its role may say, and nothing else.

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
        progress: Callable[[], wire.Progress] = _no_progress,
        silence_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._decoders = {role: msgspec.msgpack.Decoder(union) for role, union in accepts.items()}
        self._on_event = on_event
        self._identity = identity
        self._progress = progress
        self._silence_s = silence_s
        self._clock = clock
        self._peers: dict[str, _Peer] = {}
        self._grants = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._hello_decoder = msgspec.msgpack.Decoder(wire.Hello)
        self._beat_s = float("-inf")
        self._socket = transport.bind(endpoint, self._on_frames)

    def send(self, peer: str, message: wire.Message) -> bool:
        """Send, or find out that the peer is lost: then False, and `Left` follows."""
        if peer not in self._peers:
            return False
        try:
            self._socket.send(peer.encode(), [self._encoder.encode(message)])
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
            beat = wire.Heartbeat(self._progress())
            for name in list(self._peers):
                self.send(name, beat)

    def drop(self, peer: str, reason: str) -> None:
        """Treat a peer as lost although it still speaks; it may say Hello again."""
        self._answer(peer, wire.Reset())
        self._lose(peer, reason)

    def close(self) -> None:
        self._socket.close()

    def _on_frames(self, identity: bytes, frames: list[bytes]) -> None:
        name = identity.decode("utf-8", "replace")
        if len(frames) != 2:
            return
        grant, payload = frames
        if grant == NO_GRANT:
            self._on_hello(name, payload)
            return
        peer = self._peers.get(name)
        if peer is None or peer.grant != grant:
            self._answer(name, wire.Reset())
            return
        try:
            message = peer.decoder.decode(payload)
        except msgspec.MsgspecError as error:
            self.drop(name, f"malformed message: {error}")
            return
        peer.heard_s = self._clock()
        self._on_event(Received(name, message))

    def _on_hello(self, name: str, payload: bytes) -> None:
        try:
            hello = self._hello_decoder.decode(payload)
        except msgspec.MsgspecError as error:
            self._answer(name, wire.Refused(f"malformed Hello: {error}"))
            return
        if hello.protocol != wire.PROTOCOL:
            reason = f"protocol {hello.protocol} of {hello.name} does not match protocol {wire.PROTOCOL} here"
            self._answer(name, wire.Refused(reason))
            return
        decoder = self._decoders.get(hello.role)
        if decoder is None:
            self._answer(name, wire.Refused(f"a {hello.role} has no business here"))
            return
        self._lose(name, "said Hello again")
        self._grants += 1
        grant = self._grants.to_bytes(8, "big")
        self._peers[name] = _Peer(hello.role, grant, decoder, self._clock())
        self._answer(name, wire.Welcome(self._grants, self._identity))
        self._on_event(Joined(name, hello))

    def _answer(self, name: str, message: wire.Message) -> None:
        with contextlib.suppress(Unreachable):  # it will ask again, or is gone
            self._socket.send(name.encode(), [self._encoder.encode(message)])

    def _lose(self, name: str, reason: str) -> None:
        if self._peers.pop(name, None) is not None:
            self._on_event(Left(name, reason))


@dataclass
class _Connection:
    address: str
    socket: DealerSocket
    grant: bytes | None = None
    remote: str | None = None
    hello_s: float = float("-inf")
    heard_s: float = float("-inf")


class DialledLink:
    """The dialling side: one connection to each address behind the endpoint.

    Args:
        hello: what to introduce ourselves with; called anew for each Hello.
        accepts: the union of messages that the bound side may send.
        on_refused: called with the reason when the bound side will never have us.
    """

    def __init__(
        self,
        transport: Transport,
        endpoint: str,
        accepts: Any,
        on_event: OnEvent,
        *,
        identity: str,
        hello: Callable[[], wire.Hello],
        progress: Callable[[], wire.Progress] = _no_progress,
        on_refused: Callable[[str], None] | None = None,
        silence_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._decoder = msgspec.msgpack.Decoder(accepts)
        self._on_event = on_event
        self._identity = identity.encode()
        self._hello = hello
        self._progress = progress
        self._on_refused = on_refused
        self._silence_s = silence_s
        self._clock = clock
        self._encoder = msgspec.msgpack.Encoder()
        self._connections: dict[str, _Connection] = {}
        self._by_remote: dict[str, _Connection] = {}
        self._beat_s = float("-inf")

    async def refresh(self) -> None:
        """Resolve the endpoint (again): dial what is new, hang up what is no longer there."""
        addresses = await self._transport.resolve(self._endpoint)
        for address in addresses:
            if address not in self._connections:
                self._dial(address)
        for address in set(self._connections).difference(addresses) if addresses else ():
            connection = self._connections.pop(address)
            self._lose(connection, "its address is gone")
            connection.socket.close()

    @property
    def peers(self) -> list[str]:
        return list(self._by_remote)

    def send(self, peer: str, message: wire.Message) -> bool:
        """Send, or find out that the peer is lost: then False, and `Left` follows."""
        connection = self._by_remote.get(peer)
        if connection is None or connection.grant is None:
            return False
        try:
            connection.socket.send([connection.grant, self._encoder.encode(message)])
        except Unreachable as error:
            reason = str(error)
            self._transport.defer(lambda: self._lose(connection, reason))
            return False
        return True

    def tick(self) -> None:
        """Hello where we are not known, heartbeats where we are. Call at least twice a second."""
        now = self._clock()
        for connection in list(self._connections.values()):
            if connection.grant is not None and now - connection.heard_s > self._silence_s:
                self._lose(connection, f"silent for {self._silence_s:g} s")
            if connection.grant is None and now - connection.hello_s >= HELLO_RETRY_S:
                self._say_hello(connection)
        if now - self._beat_s >= HEARTBEAT_S:
            self._beat_s = now
            beat = wire.Heartbeat(self._progress())
            for peer in list(self._by_remote):
                self.send(peer, beat)

    def drop(self, peer: str, reason: str) -> None:
        """Give up what was said on this link so far, and say Hello anew."""
        connection = self._by_remote.get(peer)
        if connection is not None:
            self._lose(connection, reason)
            self._say_hello(connection)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._connections.clear()
        self._by_remote.clear()

    def _dial(self, address: str) -> None:
        socket = self._transport.dial(address, self._identity, lambda frames: self._on_frames(address, frames))
        self._connections[address] = _Connection(address, socket)

    def _say_hello(self, connection: _Connection) -> None:
        try:
            connection.socket.send([NO_GRANT, self._encoder.encode(self._hello())])
        except Unreachable:
            return  # not connected yet: the next tick tries again
        connection.hello_s = self._clock()

    def _on_frames(self, address: str, frames: list[bytes]) -> None:
        connection = self._connections.get(address)
        if connection is None or len(frames) != 1:
            return
        try:
            message = self._decoder.decode(frames[0])
        except msgspec.MsgspecError as error:
            self._lose(connection, f"malformed message: {error}")
            return
        connection.heard_s = self._clock()
        match message:
            case wire.Welcome():
                self._on_welcome(connection, message)
            case wire.Refused(reason):
                if self._on_refused is not None:
                    self._on_refused(reason)
            case wire.Reset():
                if connection.grant is not None:  # else our Hello is already on its way
                    self._lose(connection, "reset")
                    self._say_hello(connection)
            case _ if connection.remote is not None:
                self._on_event(Received(connection.remote, message))
            case _:
                pass  # said to an earlier grant of ours

    def _on_welcome(self, connection: _Connection, welcome: wire.Welcome) -> None:
        self._lose(connection, "welcomed anew")
        connection.grant = welcome.grant.to_bytes(8, "big")
        connection.remote = welcome.identity
        self._by_remote[welcome.identity] = connection
        self._on_event(Joined(welcome.identity))

    def _lose(self, connection: _Connection, reason: str) -> None:
        remote, connection.remote, connection.grant = connection.remote, None, None
        connection.hello_s = float("-inf")
        if remote is not None and self._by_remote.get(remote) is connection:
            del self._by_remote[remote]
            self._on_event(Left(remote, reason))
