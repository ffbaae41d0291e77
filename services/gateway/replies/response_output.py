"""The output of a response of OpenAI's, out of a model's text: its items, and the events in which they come.

Knows no response around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from services.gateway.replies.logprobs import chat_entries
from services.gateway.replies.output_text import OutputText
from services.gateway.replies.reply import Json
from services.gateway.replies.response_items import CallItem, ItemStatus, MessageItem, ReasoningItem
from services.gateway.replies.thoughts import Thoughts
from services.gateway.tool_calls.events import Arguments, CallEnded, CallStarted, Content, Event
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat
from shared.wire import TextLogprob


class ResponseOutput:
    """`feed` for each piece, or for the whole, and then `finish`. An output without any words is an empty message.

    Args:
        tools: how calls are written, if the text is to be searched for calls.
        reasoning: how thoughts are set apart, if they are to be told apart.
    """

    def __init__(self, request_id: str, tools: ToolFormat | None, reasoning: ReasoningFormat | None) -> None:
        self._request_id = request_id
        self._thoughts = Thoughts(reasoning)
        self._text = OutputText(tools)
        self._done: list[Json] = []
        self._open: MessageItem | ReasoningItem | CallItem | None = None
        self._logprobs: list[Json] = []  # of tokens whose text has not come

    def feed(self, text: str, logprobs: Sequence[TextLogprob]) -> list[Json]:
        self._logprobs += chat_entries(logprobs)
        said = self._thoughts.feed(text)
        return [*self._think(said.thought), *self._say(self._text.feed(said.answer))]

    def finish(self, status: ItemStatus) -> list[Json]:
        """Args:
        status: of what ends here. A call that does is incomplete.
        """
        held = self._thoughts.finish()
        last = [*self._think(held.thought), *self._say([*self._text.feed(held.answer), *self._text.finish()])]
        if not self._done and self._open is None:
            last += self._begin(MessageItem(self._request_id, 0))
        if isinstance(self._open, MessageItem) and self._logprobs:
            last.append(self._open.more("", self._take_logprobs()))
        return last + self._end("incomplete" if isinstance(self._open, CallItem) else status)

    @property
    def items(self) -> list[Json]:
        return [*self._done, *([self._open.item("in_progress")] if self._open is not None else [])]

    def _think(self, thought: str) -> Iterator[Json]:
        if not thought:
            return
        if not isinstance(self._open, ReasoningItem):
            yield from self._begin(ReasoningItem(self._request_id, len(self._done)))
        assert isinstance(self._open, ReasoningItem)
        self._take_logprobs()  # thoughts have no place for them, and calls neither
        yield self._open.more(thought)

    def _say(self, events: Sequence[Event]) -> Iterator[Json]:
        for event in events:
            yield from self._events(event)

    def _events(self, event: Event) -> Iterator[Json]:
        match event:
            case Content(text):
                if not isinstance(self._open, MessageItem):
                    yield from self._end("completed")
                    yield from self._begin(MessageItem(self._request_id, len(self._done)))
                assert isinstance(self._open, MessageItem)
                yield self._open.more(text, self._take_logprobs())
            case CallStarted():
                yield from self._end("completed")
                yield from self._begin(CallItem(self._request_id, len(self._done), event))
            case Arguments(_, text):
                assert isinstance(self._open, CallItem)
                self._take_logprobs()
                yield self._open.more(text)
            case CallEnded():
                yield from self._end("completed")
            case _:
                assert_never(event)

    def _begin(self, item: MessageItem | ReasoningItem | CallItem) -> list[Json]:
        self._open = item
        return item.opening()

    def _end(self, status: ItemStatus) -> list[Json]:
        if self._open is None:
            return []
        ended, self._open = self._open, None
        self._done.append(ended.item(status))
        return ended.closing(status)

    def _take_logprobs(self) -> list[Json]:
        taken, self._logprobs = self._logprobs, []
        return taken
