"""What reading a body needs to know, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.reply import Reply, ReplyHead


@dataclass(frozen=True)
class Terms:
    limits: Limits
    tenant: str
    fresh_seed: int  # for a request that names none: fixed now, so that a resumed request draws the same numbers


@dataclass(frozen=True)
class Call:
    """A request in its internal form, and how its API wants to be answered."""

    request: GenerateRequest
    stream: bool
    reply: Callable[[ReplyHead], Reply]
    prompt_param: str  # what this client calls what later stages call "prompt"
