"""Frames between processes: ROUTER and DEALER over ZeroMQ, and an in-memory twin with the same behaviour.

Knows sockets and addresses. Does not know messages, roles or grants: those are `shared.link`.

The rules (why each option is set): a ROUTER drops silently to unknown peers and past its high-water mark unless
ROUTER_MANDATORY is on; a restarted peer that comes back under its old identity is ignored unless ROUTER_HANDOVER is
on; a DEALER without IMMEDIATE queues for a peer that is not there. Every send is non-blocking and raises
`Unreachable` instead of waiting: back-pressure is by count in the services, the high-water mark is only a fuse.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import zmq

from shared.wire import MAX_MESSAGE_BYTES

HIGH_WATER_MARK = 20_000  # messages queued for one peer
LINGER_MS = 200  # how long a closing socket may still deliver what it accepted
DRAIN_BATCH = 64  # messages handled before the event loop gets its turn


class Unreachable(Exception):
    """The peer is gone, not there yet, or has stopped reading."""


class PlainTcpError(Exception):
    """A tcp endpoint beyond this machine, without keys, and nobody said that this is meant."""


OnRouterFrames = Callable[[bytes, list[bytes]], None]  # sender's identity, its frames
OnDealerFrames = Callable[[list[bytes]], None]


class RouterSocket(Protocol):
    def send(self, identity: bytes, frames: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...


class DealerSocket(Protocol):
    def send(self, frames: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...


class Transport(Protocol):
    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> RouterSocket: ...
    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames) -> DealerSocket: ...
    def defer(self, call: Callable[[], None]) -> None: ...
    async def resolve(self, endpoint: str) -> list[str]: ...
    def close(self) -> None: ...


# --- ZeroMQ ----------------------------------------------------------------------------------------------------------


class ZmqTransport:
    """Sockets on the running asyncio loop.

    Args:
        allow_plain_tcp: accept tcp endpoints that are not loopback, although no keys are configured.
    """

    def __init__(self, *, allow_plain_tcp: bool = False) -> None:
        self._context = zmq.Context()
        self._loop = asyncio.get_running_loop()
        self._allow_plain_tcp = allow_plain_tcp

    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> _ZmqRouter:
        """Raises zmq.ZMQError if the address is taken, PlainTcpError if it is open to others by accident."""
        self._check(endpoint)
        raw = self._socket(zmq.ROUTER)
        raw.setsockopt(zmq.ROUTER_MANDATORY, 1)
        raw.setsockopt(zmq.ROUTER_HANDOVER, 1)
        raw.bind(endpoint)
        return _ZmqRouter(raw, self._loop, lambda frames: on_frames(frames[0], frames[1:]))

    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames) -> _ZmqDealer:
        self._check(endpoint)
        raw = self._socket(zmq.DEALER)
        raw.setsockopt(zmq.IDENTITY, identity)
        raw.setsockopt(zmq.IMMEDIATE, 1)
        raw.setsockopt(zmq.RECONNECT_IVL, 50)
        raw.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        raw.connect(endpoint)
        return _ZmqDealer(raw, self._loop, on_frames)

    def defer(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    async def resolve(self, endpoint: str) -> list[str]:
        """Every address behind a tcp name; other endpoints stand for themselves. Empty while the name is unknown."""
        url = urlsplit(endpoint)
        if url.scheme != "tcp" or url.hostname is None or _is_address(url.hostname):
            return [endpoint]
        try:
            found = await self._loop.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
        except OSError:
            return []
        hosts = {str(address[0]) for *_, address in found}
        return sorted(f"tcp://[{host}]:{url.port}" if ":" in host else f"tcp://{host}:{url.port}" for host in hosts)

    def close(self) -> None:
        self._context.term()

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        raw = self._context.socket(kind)
        raw.setsockopt(zmq.LINGER, LINGER_MS)
        raw.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        raw.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
        raw.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        raw.setsockopt(zmq.IPV6, 1)
        return raw

    def _check(self, endpoint: str) -> None:
        if self._allow_plain_tcp or not endpoint.startswith("tcp:"):
            return
        host = urlsplit(endpoint).hostname or ""
        if host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback):
            return
        raise PlainTcpError(
            f"{endpoint} is reachable from other machines and has no keys; "
            "set links.allow_plain_tcp (--allow-plain-tcp) if the network itself is private"
        )


class _ZmqSocket:
    """A socket's descriptor only signals changes of state, so after each event and each send we look for ourselves."""

    def __init__(
        self, raw: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop, on_frames: Callable[[list[bytes]], None]
    ) -> None:
        self._raw = raw
        self._loop = loop
        self._on_frames = on_frames
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
                frames = self._raw.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._on_frames(frames)
        self._drain_soon()


class _ZmqRouter(_ZmqSocket):
    def send(self, identity: bytes, frames: Sequence[bytes]) -> None:
        self._send([identity, *frames])


class _ZmqDealer(_ZmqSocket):
    def send(self, frames: Sequence[bytes]) -> None:
        self._send(frames)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# --- in memory -------------------------------------------------------------------------------------------------------


class MemoryTransport:
    """The twin for tests: what is sent lies in `queue` until `pump()` delivers it, in order and in this thread.

    `unplug(identity)` is a peer's sudden death: its frames vanish, and sends to it raise `Unreachable`.
    """

    def __init__(self) -> None:
        self.queue: deque[Callable[[], None]] = deque()
        self._routers: dict[str, _MemoryRouter] = {}
        self._dealers: dict[tuple[str, bytes], _MemoryDealer] = {}

    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> _MemoryRouter:
        if endpoint in self._routers:
            raise OSError(f"address in use: {endpoint}")
        self._routers[endpoint] = router = _MemoryRouter(self, endpoint, on_frames)
        return router

    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames) -> _MemoryDealer:
        self._dealers[endpoint, identity] = dealer = _MemoryDealer(self, endpoint, identity, on_frames)
        return dealer

    def defer(self, call: Callable[[], None]) -> None:
        self.queue.append(call)

    async def resolve(self, endpoint: str) -> list[str]:
        return [endpoint]

    def close(self) -> None:
        self._routers.clear()
        self._dealers.clear()

    def pump(self) -> None:
        """Deliver until nothing is under way."""
        while self.queue:
            self.queue.popleft()()

    def unplug(self, identity: bytes) -> None:
        for key in [key for key in self._dealers if key[1] == identity]:
            del self._dealers[key]

    def to_router(self, endpoint: str, identity: bytes, frames: list[bytes]) -> None:
        router = self._routers.get(endpoint)
        if router is None or (endpoint, identity) not in self._dealers:
            raise Unreachable("nobody is bound there")
        self.queue.append(lambda: router.deliver(identity, frames))

    def to_dealer(self, endpoint: str, identity: bytes, frames: list[bytes]) -> None:
        dealer = self._dealers.get((endpoint, identity))
        if dealer is None:
            raise Unreachable("no such peer")
        self.queue.append(lambda: dealer.deliver(frames))

    def drop_router(self, endpoint: str) -> None:
        self._routers.pop(endpoint, None)

    def drop_dealer(self, endpoint: str, identity: bytes) -> None:
        self._dealers.pop((endpoint, identity), None)

    def is_bound(self, endpoint: str, router: _MemoryRouter) -> bool:
        return self._routers.get(endpoint) is router

    def is_dialled(self, endpoint: str, identity: bytes, dealer: _MemoryDealer) -> bool:
        return self._dealers.get((endpoint, identity)) is dealer


class _MemoryRouter:
    def __init__(self, network: MemoryTransport, endpoint: str, on_frames: OnRouterFrames) -> None:
        self._network, self._endpoint, self._on_frames = network, endpoint, on_frames

    def send(self, identity: bytes, frames: Sequence[bytes]) -> None:
        self._network.to_dealer(self._endpoint, identity, list(frames))

    def deliver(self, identity: bytes, frames: list[bytes]) -> None:
        if self._network.is_bound(self._endpoint, self):
            self._on_frames(identity, frames)

    def close(self) -> None:
        self._network.drop_router(self._endpoint)


class _MemoryDealer:
    def __init__(self, network: MemoryTransport, endpoint: str, identity: bytes, on_frames: OnDealerFrames) -> None:
        self._network, self._endpoint, self._identity, self._on_frames = network, endpoint, identity, on_frames

    def send(self, frames: Sequence[bytes]) -> None:
        self._network.to_router(self._endpoint, self._identity, list(frames))

    def deliver(self, frames: list[bytes]) -> None:
        if self._network.is_dialled(self._endpoint, self._identity, self):
            self._on_frames(frames)

    def close(self) -> None:
        self._network.drop_dealer(self._endpoint, self._identity)
