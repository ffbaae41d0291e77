"""What an API's reply looks like to the code that sends it: JSON, for a whole answer or one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from services.gateway.generation import Delta, Ending, Usage

Json = dict[str, Any]


@dataclass(frozen=True)
class ReplyHead:
    """What a reply says of itself. One of these per reply."""

    request_id: str
    model_id: str
    created_s: int  # Unix time
    elapsed_s: Callable[[], float]  # since the request arrived
    prompts: tuple[str, ...] = ()  # where the client wants them repeated


class Output(NamedTuple):
    """A generation, whole."""

    delta: Delta
    ending: Ending


class Reply(Protocol):
    """One answer, of generations that are numbered from 0.

    Either `whole` is called, once, or `events` for each piece and each ending as they come and then `closing`.
    """

    named_events: bool  # each event has a name, its type, and no [DONE] comes at the end

    def whole(self, outputs: Sequence[Output], usage: Usage) -> Any: ...

    def events(self, index: int, delta: Delta) -> list[Json]: ...

    def ended(self, index: int, ending: Ending) -> list[Json]: ...

    def closing(self, usage: Usage) -> list[Json]: ...
