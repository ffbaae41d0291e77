"""The output of a response of OpenAI's: its items, and the events in which they come. Knows no response around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

from services.gateway.replies.logprobs import chat_entries
from services.gateway.replies.output_text import OutputText
from services.gateway.replies.reply import Json
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from shared.tool_format import ToolFormat
from shared.wire import TextLogprob

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]


def request_id_of(item_id: str) -> str:
    """Whose output the item is in, if it is one of ours."""
    return item_id.partition("_")[2].rpartition("-")[0]


class OutputItems:
    """`feed` for each piece, or for the whole, and then `finish`. An output without any words is an empty message.

    Args:
        tools: how calls are written, if the text is to be searched for calls.
    """

    def __init__(self, request_id: str, tools: ToolFormat | None) -> None:
        self._request_id = request_id
        self._text = OutputText(tools)
        self._done: list[Json] = []
        self._open: _Message | _Call | None = None
        self._logprobs: list[Json] = []  # of tokens whose text has not come

    def feed(self, text: str, logprobs: Sequence[TextLogprob]) -> list[Json]:
        self._logprobs += chat_entries(logprobs)
        return [said for event in self._text.feed(text) for said in self._events(event)]

    def finish(self, status: ItemStatus) -> list[Json]:
        """Args:
        status: of a message that ends here. A call that does is incomplete.
        """
        last = [said for event in self._text.finish() for said in self._events(event)]
        if not self._done and self._open is None:
            last += self._begin(self._new_message())
        if isinstance(self._open, _Message) and self._logprobs:
            last.append(self._open.more("", self._take_logprobs()))
        return last + self._end("incomplete" if isinstance(self._open, _Call) else status)

    @property
    def items(self) -> list[Json]:
        return [*self._done, *([self._open.item("in_progress")] if self._open is not None else [])]

    def _events(self, event: Event) -> Iterator[Json]:
        match event:
            case Content(text):
                if not isinstance(self._open, _Message):
                    yield from self._begin(self._new_message())
                assert isinstance(self._open, _Message)
                yield self._open.more(text, self._take_logprobs())
            case CallStarted():
                yield from self._end("completed")
                yield from self._begin(_Call(self._new_id("fc"), len(self._done), event))
            case Arguments(_, text):
                assert isinstance(self._open, _Call)
                self._take_logprobs()  # items of calls have no place for them
                yield self._open.more(text)
            case CallEnded():
                yield from self._end("completed")
            case _:
                assert_never(event)

    def _begin(self, item: _Message | _Call) -> list[Json]:
        self._open = item
        return item.opening()

    def _end(self, status: ItemStatus) -> list[Json]:
        if self._open is None:
            return []
        ended, self._open = self._open, None
        self._done.append(ended.item(status))
        return ended.closing(status)

    def _new_message(self) -> _Message:
        return _Message(self._new_id("msg"), len(self._done))

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{self._request_id}-{len(self._done)}"

    def _take_logprobs(self) -> list[Json]:
        taken, self._logprobs = self._logprobs, []
        return taken


class _Message:
    """Text, as the one part of a message."""

    def __init__(self, item_id: str, output_index: int) -> None:
        self._id = item_id
        self._place: Json = {"item_id": item_id, "output_index": output_index, "content_index": 0}
        self._output_index = output_index
        self._pieces: list[str] = []
        self._logprobs: list[Json] = []

    def item(self, status: ItemStatus) -> Json:
        content = [self._part()] if self._pieces or status != "in_progress" else []
        return {"id": self._id, "type": "message", "status": status, "role": "assistant", "content": content}

    def opening(self) -> list[Json]:
        return [
            _added(self._output_index, self.item("in_progress")),
            {"type": "response.content_part.added", **self._place, "part": self._part()},
        ]

    def more(self, text: str, logprobs: list[Json]) -> Json:
        self._pieces.append(text)
        self._logprobs += logprobs
        return {"type": "response.output_text.delta", **self._place, "delta": text, "logprobs": logprobs}

    def closing(self, status: ItemStatus) -> list[Json]:
        part = self._part()
        text: Json = {"text": part["text"], "logprobs": part["logprobs"]}
        return [
            {"type": "response.output_text.done", **self._place, **text},
            {"type": "response.content_part.done", **self._place, "part": part},
            _done(self._output_index, self.item(status)),
        ]

    def _part(self) -> Json:
        text = "".join(self._pieces)
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(self._logprobs)}


class _Call:
    def __init__(self, item_id: str, output_index: int, call: CallStarted) -> None:
        self._id = item_id
        self._place: Json = {"item_id": item_id, "output_index": output_index}
        self._output_index = output_index
        self._call = call
        self._pieces: list[str] = []

    def item(self, status: ItemStatus) -> Json:
        return {
            "id": self._id,
            "type": "function_call",
            "status": status,
            "call_id": self._call.call_id,
            "name": self._call.name,
            "arguments": "".join(self._pieces),
        }

    def opening(self) -> list[Json]:
        return [_added(self._output_index, self.item("in_progress"))]

    def more(self, text: str) -> Json:
        self._pieces.append(text)
        return {"type": "response.function_call_arguments.delta", **self._place, "delta": text}

    def closing(self, status: ItemStatus) -> list[Json]:
        item = self.item(status)
        said: Json = {"name": item["name"], "arguments": item["arguments"]}
        return [
            {"type": "response.function_call_arguments.done", **self._place, **said},
            _done(self._output_index, item),
        ]


def _added(output_index: int, item: Json) -> Json:
    return {"type": "response.output_item.added", "output_index": output_index, "item": item}


def _done(output_index: int, item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": output_index, "item": item}
