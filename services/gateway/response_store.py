"""Responses that clients may come back to: each tenant's own, the least recently used go first.

They live in this gateway alone and end with it. What is kept is JSON, so its size is known. Knows nothing of HTTP, and
nothing of responses that still run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from services.gateway.replies.reply import Json

_encode = msgspec.json.encode


class KeptResponse(msgspec.Struct, frozen=True):
    body: bytes
    items: bytes  # what the model went on from
    output: bytes  # and what it said: a part of the body

    @property
    def size(self) -> int:
        return len(self.body) + len(self.items) + len(self.output)


class ResponseStore:
    """Args:
    max_responses: of one tenant.
    max_bytes: of one tenant's.
    """

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._shelves: dict[str, _Shelf] = {}  # by tenant

    def keep(self, tenant: str, response: Json, items: Sequence[Json]) -> None:
        """A response too large for all the room there is is not kept."""
        shelf = self._shelves.setdefault(tenant, _Shelf())
        kept = KeptResponse(_encode(response), _encode(items), _encode(response["output"]))
        shelf.put(response["id"], kept)
        while len(shelf.kept) > self._max_responses or shelf.size > self._max_bytes:
            shelf.drop(next(iter(shelf.kept)))

    def get(self, tenant: str, response_id: str) -> KeptResponse | None:
        shelf = self._shelves.get(tenant)
        if shelf is None or response_id not in shelf.kept:
            return None
        shelf.kept.move_to_end(response_id)
        return shelf.kept[response_id]

    def delete(self, tenant: str, response_id: str) -> None:
        self._shelves[tenant].drop(response_id)

    def check_integrity(self) -> None:
        for shelf in self._shelves.values():
            assert shelf.size == sum(kept.size for kept in shelf.kept.values()) <= self._max_bytes
            assert len(shelf.kept) <= self._max_responses


class _Shelf:
    def __init__(self) -> None:
        self.kept: OrderedDict[str, KeptResponse] = OrderedDict()  # the most recently used last
        self.size = 0

    def put(self, response_id: str, kept: KeptResponse) -> None:
        self.kept[response_id] = kept
        self.size += kept.size

    def drop(self, response_id: str) -> None:
        self.size -= self.kept.pop(response_id).size
