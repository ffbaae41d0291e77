"""Frames between processes: ROUTER and DEALER over ZeroMQ, and an in-memory twin with the same behaviour.

Knows sockets, addresses and keys. Does not know messages or grants: those are `shared.link`.

With keys, tcp is encrypted (CURVE): a dialler knows the key of whom it dials, and the bound side hears only those whose
keys it lists, and with each of their frames the role that their key stands for. ipc sockets are for this user alone.

The rules (why each option is set): a ROUTER drops silently to unknown peers and past its high-water mark unless
ROUTER_MANDATORY is on; a restarted peer that comes back under its old identity is ignored unless ROUTER_HANDOVER is
on; a DEALER without IMMEDIATE queues for a peer that is not there. Every send is non-blocking and raises
`Unreachable` instead of waiting: back-pressure is by count in the services, the high-water mark is only a fuse.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import zmq

from shared import wire
from shared.addresses import is_address, is_loopback
from shared.link_keys import LinkKeys
from shared.private_files import private_files
from shared.sockets import Doorkeeper, Handshakes, OnDealerFrames, OnRouterFrames, Unreachable, ZmqDealer, ZmqRouter

__all__ = [
    "DealerSocket",
    "MemoryTransport",
    "PlainTcpError",
    "RouterSocket",
    "Transport",
    "Unreachable",
    "ZmqTransport",
]

HIGH_WATER_MARK = 20_000  # messages queued for one peer
ZAP_DOMAIN = b"sapwood"
LINGER_MS = 200  # how long a closing socket may still deliver what it accepted


class PlainTcpError(Exception):
    """A tcp endpoint beyond this machine, without keys, and nobody said that this is meant."""


class RouterSocket(Protocol):
    def send(self, identity: bytes, frames: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...


class DealerSocket(Protocol):
    def send(self, frames: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...


class Transport(Protocol):
    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> RouterSocket: ...
    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames, *, to: wire.Role) -> DealerSocket: ...
    def defer(self, call: Callable[[], None]) -> None: ...
    async def resolve(self, endpoint: str) -> list[str]: ...
    def close(self) -> None: ...


# --- ZeroMQ ----------------------------------------------------------------------------------------------------------


class ZmqTransport:
    """Sockets on the running asyncio loop.

    Args:
        keys: for every tcp endpoint.
        allow_plain_tcp: accept tcp endpoints that are not loopback, although there are no keys.
    """

    def __init__(self, *, keys: LinkKeys | None = None, allow_plain_tcp: bool = False) -> None:
        self._context = zmq.Context()
        self._loop = asyncio.get_running_loop()
        self._keys = keys
        self._doorkeeper: Doorkeeper | None = None
        self._handshakes: list[Handshakes] = []
        self._allow_plain_tcp = allow_plain_tcp

    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> ZmqRouter:
        """Raises zmq.ZMQError if the address is taken, PlainTcpError if it is open to others by accident."""
        self._check(endpoint)
        raw = self._socket(zmq.ROUTER)
        raw.setsockopt(zmq.ROUTER_MANDATORY, 1)
        raw.setsockopt(zmq.ROUTER_HANDOVER, 1)
        keys = self._keys_for(endpoint)
        if keys is not None:
            self._admit_only_listed(raw, keys)
        with private_files():
            raw.bind(endpoint)
        if _is_tcp(endpoint):
            self._handshakes.append(Handshakes(raw, self._loop, endpoint))
        return ZmqRouter(raw, self._loop, on_frames, has_keys=keys is not None)

    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames, *, to: wire.Role) -> ZmqDealer:
        self._check(endpoint)
        raw = self._socket(zmq.DEALER)
        raw.setsockopt(zmq.IDENTITY, identity)
        raw.setsockopt(zmq.IMMEDIATE, 1)
        raw.setsockopt(zmq.RECONNECT_IVL, 50)
        raw.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        keys = self._keys_for(endpoint)
        if keys is not None:
            raw.setsockopt(zmq.CURVE_SERVERKEY, keys.public_of(to))
            raw.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
            raw.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        raw.connect(endpoint)
        return ZmqDealer(raw, self._loop, on_frames)

    def defer(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    async def resolve(self, endpoint: str) -> list[str]:
        """All of a list with commas in between, and every address behind a tcp name; none while a name is unknown."""
        return [address for each in endpoint.split(",") for address in await self._behind(each)]

    async def _behind(self, endpoint: str) -> list[str]:
        url = urlsplit(endpoint)
        if url.scheme != "tcp" or url.hostname is None or is_address(url.hostname):
            return [endpoint]
        try:
            found = await self._loop.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
        except OSError:
            return []
        hosts = {str(address[0]) for *_, address in found}
        return sorted(f"tcp://[{host}]:{url.port}" if ":" in host else f"tcp://{host}:{url.port}" for host in hosts)

    def close(self) -> None:
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        for handshakes in self._handshakes:
            handshakes.close()
        self._context.destroy(linger=0)  # a socket that somebody left open holds nobody up

    def _keys_for(self, endpoint: str) -> LinkKeys | None:
        return self._keys if _is_tcp(endpoint) else None

    def _admit_only_listed(self, raw: zmq.Socket[bytes], keys: LinkKeys) -> None:
        if self._doorkeeper is None:
            self._doorkeeper = Doorkeeper(self._context, self._loop, keys.roles)
        raw.setsockopt(zmq.CURVE_SERVER, 1)
        raw.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        raw.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        raw.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        raw.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # nobody is let in without being asked for

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        raw = self._context.socket(kind)
        raw.setsockopt(zmq.LINGER, LINGER_MS)
        raw.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        raw.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
        raw.setsockopt(zmq.MAXMSGSIZE, wire.MAX_MESSAGE_BYTES)
        raw.setsockopt(zmq.IPV6, 1)
        return raw

    def _check(self, endpoint: str) -> None:
        if self._allow_plain_tcp or self._keys is not None or not _is_tcp(endpoint):
            return
        if is_loopback(urlsplit(endpoint).hostname or ""):
            return
        raise PlainTcpError(
            f"{endpoint} is reachable from other machines and has no keys; "
            "make some with sapwood link-keys and name their folder in links.keys_dir, or set links.allow_plain_tcp "
            "(--allow-plain-tcp) if the network itself is private"
        )


def _is_tcp(endpoint: str) -> bool:
    return endpoint.startswith("tcp:")


# --- in memory -------------------------------------------------------------------------------------------------------


class MemoryTransport:
    """The twin for tests: what is sent lies in `queue` until `pump()` delivers it, in order and in this thread.

    `unplug(name)` is a peer's sudden death: the frames of identities that begin so vanish, and sends to them raise
    `Unreachable`. `roles` is what keys would prove, by identity.
    """

    def __init__(self) -> None:
        self.roles: dict[bytes, wire.Role] = {}
        self.queue: deque[Callable[[], None]] = deque()
        self._routers: dict[str, _MemoryRouter] = {}
        self._dealers: dict[tuple[str, bytes], _MemoryDealer] = {}

    def bind(self, endpoint: str, on_frames: OnRouterFrames) -> _MemoryRouter:
        if endpoint in self._routers:
            raise OSError(f"address in use: {endpoint}")
        self._routers[endpoint] = router = _MemoryRouter(self, endpoint, on_frames)
        return router

    def dial(self, endpoint: str, identity: bytes, on_frames: OnDealerFrames, *, to: wire.Role) -> _MemoryDealer:
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

    def dialled(self, endpoint: str) -> list[bytes]:
        """The identities of those who have dialled it."""
        return [identity for dialled, identity in self._dealers if dialled == endpoint]

    def unplug(self, name: bytes) -> None:
        for key in [key for key in self._dealers if key[1].startswith(name)]:
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
            self._on_frames(identity, frames, self._network.roles.get(identity))

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
