"""The bound side of a link for tests of those who dial: it records what it is told and says what the test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared import wire
from shared.config import Config, LinksConfig
from shared.link import BoundLink, Joined, Left, LinkEvent, Received
from shared.service import Context, Service
from shared.transport import MemoryTransport

CONFIG = Config(links=LinksConfig(front="mem://front", hub="mem://hub"))


class BoundPeer:
    """A front or a hub. `messages` are those received, heartbeats left out."""

    def __init__(self, transport: MemoryTransport, endpoint: str, accepts: dict[wire.Role, Any], identity: str) -> None:
        self.joined: list[str] = []
        self.left: list[str] = []
        self.messages: list[Any] = []
        self._link = BoundLink(transport, endpoint, accepts, self._on_event, identity=identity)

    @classmethod
    def front(cls, transport: MemoryTransport, identity: str = "gw") -> BoundPeer:
        return cls(transport, "mem://front", wire.FRONT_ACCEPTS, identity)

    @classmethod
    def hub(cls, transport: MemoryTransport) -> BoundPeer:
        return cls(transport, "mem://hub", wire.HUB_ACCEPTS, "hub")

    def say(self, *messages: wire.Message) -> None:
        """To the one that joined last."""
        for message in messages:
            assert self._link.send(self.joined[-1], message)

    def take(self) -> list[Any]:
        """The messages since the last take."""
        taken, self.messages = self.messages, []
        return taken

    def drop(self) -> None:
        """Break the link; the dialler will say Hello again."""
        self._link.drop(self.joined[-1], "the test wants it")

    def close(self) -> None:
        self._link.close()

    def _on_event(self, event: LinkEvent) -> None:
        match event:
            case Joined(peer):
                self.joined.append(peer)
            case Left(peer):
                self.left.append(peer)
            case Received(_, wire.Heartbeat()):
                pass
            case Received(_, message):
                self.messages.append(message)


def context(transport: MemoryTransport, *, fail: Callable[[str], None], name: str = "replica-1") -> Context:
    return Context(CONFIG, name, "replica", transport, fail)


async def link_up(service: Service, transport: MemoryTransport) -> None:
    """Dial, greet, and let everything that follows arrive."""
    await service.refresh()
    service.tick()
    transport.pump()
