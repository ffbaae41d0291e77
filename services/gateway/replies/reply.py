"""What an API's reply looks like to the code that sends it: JSON objects, for a whole answer or one event at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from services.gateway.generation import Delta, Ending

Json = dict[str, Any]


@dataclass(frozen=True)
class ReplyHead:
    """What a reply says of itself. One of these per reply."""

    request_id: str
    model_id: str
    created_s: int  # Unix time
    elapsed_s: Callable[[], float]  # since the request arrived


class Reply(Protocol):
    """One answer. Either `whole` is called, once, or `events` for each piece and then `closing`."""

    def whole(self, output: Delta, ending: Ending) -> Json: ...

    def events(self, delta: Delta) -> list[Json]: ...

    def closing(self, ending: Ending) -> list[Json]: ...
