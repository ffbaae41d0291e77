"""The items of a response's output: a message, thoughts, a call, each with the events that say how it comes."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from services.gateway.replies.reply import Json
from services.gateway.tool_calls.events import CallStarted

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]


def request_id_of(item_id: str) -> str:
    """Whose output the item is in, if it is one of ours."""
    return item_id.partition("_")[2].rpartition("-")[0]


class _Item:
    prefix: ClassVar[str]  # of its id

    def __init__(self, request_id: str, output_index: int) -> None:
        self._id = f"{self.prefix}_{request_id}-{output_index}"
        self._output_index = output_index
        self._pieces: list[str] = []

    def item(self, status: ItemStatus) -> Json:
        raise NotImplementedError

    def _added(self) -> Json:
        item = self.item("in_progress")
        return {"type": "response.output_item.added", "output_index": self._output_index, "item": item}

    def _done(self, status: ItemStatus) -> Json:
        return {"type": "response.output_item.done", "output_index": self._output_index, "item": self.item(status)}

    def _place(self) -> Json:
        return {"item_id": self._id, "output_index": self._output_index}

    @property
    def _text(self) -> str:
        return "".join(self._pieces)


class _TextItem(_Item):
    """Text, as the one part of an item."""

    kind: ClassVar[Json]  # what the item says of itself
    part_type: ClassVar[str]

    def item(self, status: ItemStatus) -> Json:
        content = [self._part()] if self._pieces or status != "in_progress" else []
        return {"id": self._id, "status": status, **self.kind, "content": content}

    def opening(self) -> list[Json]:
        return [self._added(), {"type": "response.content_part.added", **self._place(), "part": self._part()}]

    def closing(self, status: ItemStatus) -> list[Json]:
        return [
            {"type": f"response.{self.part_type}.done", **self._place(), **self._said()},
            {"type": "response.content_part.done", **self._place(), "part": self._part()},
            self._done(status),
        ]

    def _delta(self, text: str) -> Json:
        self._pieces.append(text)
        return {"type": f"response.{self.part_type}.delta", **self._place(), "delta": text}

    def _place(self) -> Json:
        return super()._place() | {"content_index": 0}

    def _part(self) -> Json:
        return {"type": self.part_type, **self._said()}

    def _said(self) -> Json:
        return {"text": self._text}


class MessageItem(_TextItem):
    prefix = "msg"
    kind: ClassVar[Json] = {"type": "message", "role": "assistant"}
    part_type = "output_text"

    def __init__(self, request_id: str, output_index: int) -> None:
        super().__init__(request_id, output_index)
        self._logprobs: list[Json] = []

    def more(self, text: str, logprobs: list[Json]) -> Json:
        self._logprobs += logprobs
        return self._delta(text) | {"logprobs": logprobs}

    def _part(self) -> Json:
        return super()._part() | {"annotations": []}

    def _said(self) -> Json:
        return super()._said() | {"logprobs": list(self._logprobs)}


class ReasoningItem(_TextItem):
    prefix = "rs"
    kind: ClassVar[Json] = {"type": "reasoning", "summary": []}
    part_type = "reasoning_text"

    def more(self, text: str) -> Json:
        return self._delta(text)


class CallItem(_Item):
    prefix = "fc"

    def __init__(self, request_id: str, output_index: int, call: CallStarted) -> None:
        super().__init__(request_id, output_index)
        self._call = call

    def item(self, status: ItemStatus) -> Json:
        said = {"call_id": self._call.call_id, "name": self._call.name, "arguments": self._text}
        return {"id": self._id, "status": status, "type": "function_call", **said}

    def opening(self) -> list[Json]:
        return [self._added()]

    def more(self, text: str) -> Json:
        self._pieces.append(text)
        return {"type": "response.function_call_arguments.delta", **self._place(), "delta": text}

    def closing(self, status: ItemStatus) -> list[Json]:
        said: Json = {"name": self._call.name, "arguments": self._text}
        return [{"type": "response.function_call_arguments.done", **self._place(), **said}, self._done(status)]
