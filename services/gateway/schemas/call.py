"""What reading a body needs to know, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.reply import Reply, ReplyHead
from shared.tool_format import ToolFormat

Names: TypeAlias = Mapping[str, str]  # of what later stages speak of, dotted: as this client calls it


@dataclass(frozen=True)
class Terms:
    limits: Limits
    tool_format: ToolFormat  # how this model writes calls
    tenant: str
    fresh_seed: int  # for a request that names none: fixed now, so that a resumed request draws the same numbers


@dataclass(frozen=True)
class Call:
    """A request in its internal form, and how its API wants to be answered."""

    request: GenerateRequest
    stream: bool
    reply: Callable[[ReplyHead], Reply]
    names: Names  # at least of "prompt"

    def name_of(self, param: str) -> str:
        """A later stage's name as the client's, by the longest part of it that is known."""
        head, rest = param, ""
        while head:
            if head in self.names:
                return self.names[head] + rest
            head, dot, last = head.rpartition(".")
            rest = f"{dot}{last}{rest}"
        return param
