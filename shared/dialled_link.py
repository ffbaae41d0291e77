"""The dialling side of a link. The protocol is described in `shared.link`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from shared import wire
from shared.decoding import Malformed, Reader
from shared.link_terms import HEARTBEAT_S, NO_GRANT, SECRET_FOLLOWS, Joined, Left, OnEvent, Received, no_progress
from shared.transport import DealerSocket, Transport, Unreachable
from shared.unanswered import Unanswered

HELLO_RETRY_S = 1.0
REDIAL_S = 10.0  # a connection that was never made may have been refused for good, by a list that has changed since

NO_ADDRESS = "no address is known for this name"
NO_CONNECTION = "nobody listens there, or the two do not have each other's keys (links.keys_dir)"
NO_WELCOME = "it is connected, and gets no welcome"


@dataclass
class _Connection:
    address: str
    route: bytes
    socket: DealerSocket
    dialled_s: float
    grant: bytes | None = None
    remote: str | None = None
    hello_s: float = float("-inf")
    heard_s: float = float("-inf")


class DialledLink:
    """One connection to each address behind the endpoint.

    Args:
        to: the role of who is bound there.
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
        to: wire.Role,
        identity: str,
        hello: Callable[[], wire.Hello],
        progress: Callable[[], wire.Progress] = no_progress,
        on_refused: Callable[[str], None] | None = None,
        silence_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._reader = Reader(accepts)
        self._on_event = on_event
        self._to: wire.Role = to
        self._identity = identity
        self._hello = hello
        self._progress = progress
        self._on_refused = on_refused
        self._silence_s = silence_s
        self._clock = clock
        self._unresolved = Unanswered(clock, silence_s)
        self._unanswered = Unanswered(clock, silence_s)
        self._encoder = msgspec.msgpack.Encoder()
        self._connections: dict[str, _Connection] = {}
        self._by_remote: dict[str, _Connection] = {}
        self._beat_s = float("-inf")

    async def refresh(self) -> None:
        """Resolve the endpoint (again): dial what is new, hang up what is no longer there."""
        addresses = await self._transport.resolve(self._endpoint)
        if addresses or self._connections:
            self._unresolved.answers(self._endpoint)
        else:
            self._unresolved.waits(self._endpoint, NO_ADDRESS)
        for address in addresses:
            if address not in self._connections:
                self._dial(address)
        for address in set(self._connections).difference(addresses) if addresses else ():
            connection = self._connections.pop(address)
            self._lose(connection, "its address is gone")
            connection.socket.close()
            self._unanswered.forget(address)

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
        route = self._identity.encode() + SECRET_FOLLOWS + secrets.token_hex(16).encode()
        self._connections[address] = _Connection(address, route, self._socket(address, route), self._clock())

    def _socket(self, address: str, route: bytes) -> DealerSocket:
        return self._transport.dial(address, route, lambda frames: self._on_frames(address, frames), to=self._to)

    def _say_hello(self, connection: _Connection) -> None:
        try:
            connection.socket.send([NO_GRANT, self._encoder.encode(self._hello())])
        except Unreachable:
            self._unanswered.waits(connection.address, NO_CONNECTION)
            self._redial(connection)  # or not connected yet: the next tick tries again
            return
        self._unanswered.waits(connection.address, NO_WELCOME)
        connection.hello_s = self._clock()

    def _redial(self, connection: _Connection) -> None:
        if self._clock() - connection.dialled_s >= REDIAL_S:
            connection.socket.close()
            connection.socket = self._socket(connection.address, connection.route)
            connection.dialled_s = self._clock()

    def _on_frames(self, address: str, frames: list[bytes]) -> None:
        connection = self._connections.get(address)
        if connection is None or len(frames) != 1:
            return
        try:
            message = self._reader.read(frames[0])
        except Malformed as error:
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
        self._unanswered.answers(connection.address)
        self._on_event(Joined(welcome.identity))

    def _lose(self, connection: _Connection, reason: str) -> None:
        remote, connection.remote, connection.grant = connection.remote, None, None
        connection.hello_s = float("-inf")
        if remote is not None and self._by_remote.get(remote) is connection:
            del self._by_remote[remote]
            self._on_event(Left(remote, reason))
