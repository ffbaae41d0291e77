"""What a tenant's earlier responses give to a new one: whole conversations, and single items of their output."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from services.gateway.errors import InvalidRequest
from services.gateway.replies.reply import Json
from services.gateway.replies.response_items import request_id_of
from services.gateway.replies.responses import response_id
from services.gateway.response_store import ResponseStore


class StoredHistory:
    """For one request. Raises InvalidRequest for what is not there.

    Args:
        running: the tenant and the id of each response that has not ended.
    """

    def __init__(self, store: ResponseStore, running: Container[tuple[str, str]], tenant: str) -> None:
        self._store = store
        self._running = running
        self._tenant = tenant
        self._outputs: dict[str, list[Json]] = {}  # those that were looked into, by their response's id

    def conversation(self, name: str) -> Sequence[Json]:
        """The items that a response went on from, and its output behind them."""
        if (self._tenant, name) in self._running:
            raise InvalidRequest("this response has not ended yet", "previous_response_id")
        kept = self._store.get(self._tenant, name)
        if kept is None:
            problem = f"there is no response {name[:128]!r}; it may be too long ago"
            raise InvalidRequest(problem, "previous_response_id", "previous_response_not_found")
        return [*_decoded(kept.items), *_decoded(kept.output)]

    def item(self, item_id: str) -> Json:
        """Of some response's output."""
        output = self._output(response_id(request_id_of(item_id)))
        found = next((item for item in output if item["id"] == item_id), None)
        if found is None:
            problem = f"there is no item {item_id[:128]!r} in any output that is stored"
            raise InvalidRequest(problem, "id", "item_not_found")
        return found

    def _output(self, name: str) -> list[Json]:
        if name not in self._outputs:
            kept = self._store.get(self._tenant, name)
            self._outputs[name] = _decoded(kept.output) if kept is not None else []
        return self._outputs[name]


def _decoded(items: bytes) -> list[Json]:
    return msgspec.json.decode(items, type=list[Json])
