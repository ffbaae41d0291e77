"""The commands that an event leads to, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from services.scheduler.events import Command, Drop, Note, Send
from shared import wire


class Outbox:
    def __init__(self) -> None:
        self._commands: list[Command] = []

    def send(self, peer: str, message: wire.Message) -> None:
        self._commands.append(Send(peer, message))

    def drop(self, peer: str, reason: str) -> None:
        self._commands.append(Drop(peer, reason))

    def note(self, event: str, **fields: Any) -> None:
        self._commands.append(Note(event, fields))

    def extend(self, commands: Iterable[Command]) -> None:
        self._commands.extend(commands)

    def take(self) -> list[Command]:
        """All of them; none is left."""
        commands, self._commands = self._commands, []
        return commands
