"""OpenAI's chat completion and its chunks: the role once, finish_reason null up to the one last chunk of the choice."""

from __future__ import annotations

from collections.abc import Sequence

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.logprobs import chat_entries
from services.gateway.replies.message import MessageText
from services.gateway.replies.openai import Chunks, StreamOptions, usage_body
from services.gateway.replies.reply import Json, ReplyHead
from shared.tool_format import ToolFormat
from shared.wire import TextLogprob


class ChatReply:
    """Args:
    tools: how calls are written, if the text is to be searched for calls.
    """

    def __init__(
        self, head: ReplyHead, *, options: StreamOptions, has_logprobs: bool, tools: ToolFormat | None = None
    ) -> None:
        self._head: Json = {
            "id": f"chatcmpl-{head.request_id}",
            "created": head.created_s,
            "model": head.model_id,
        }
        self._chunks = Chunks(self._head | {"object": "chat.completion.chunk"}, options)
        self._message = MessageText(tools)
        self._has_logprobs = has_logprobs
        self._has_begun = False

    def whole(self, output: Delta, ending: Ending) -> Json:
        choice = {
            "index": 0,
            "message": self._message.whole(output.text),
            "logprobs": self._logprobs(output.logprobs),
            "finish_reason": self._message.finish_reason(ending),
        }
        return self._head | {"object": "chat.completion", "choices": [choice], "usage": usage_body(ending.usage)}

    def events(self, delta: Delta) -> list[Json]:
        """The first chunk carries the log-probabilities of all tokens of the delta, said or held back."""
        logprobs = delta.logprobs if self._has_logprobs else ()
        said = self._message.deltas(delta.text) or ([self._message.empty_delta] if logprobs else [])
        chunks = [self._chunk(each, delta.usage, () if place else logprobs) for place, each in enumerate(said)]
        return self._opening(delta.usage) + chunks

    def closing(self, ending: Ending) -> list[Json]:
        last = [self._chunk(delta, ending.usage) for delta in self._message.last_deltas()]
        choice: Json = {"delta": {}, "logprobs": None, "finish_reason": self._message.finish_reason(ending)}
        return self._opening(ending.usage) + last + self._chunks.closing(choice, ending.usage)

    def _opening(self, usage: Usage) -> list[Json]:
        if self._has_begun:
            return []
        self._has_begun = True
        choice = {"delta": self._message.first_delta, "logprobs": None, "finish_reason": None}
        return [self._chunks.choice(choice, usage)]

    def _chunk(self, delta: Json, usage: Usage, logprobs: Sequence[TextLogprob] = ()) -> Json:
        choice = {"delta": delta, "logprobs": self._logprobs(logprobs) if logprobs else None, "finish_reason": None}
        return self._chunks.choice(choice, usage)

    def _logprobs(self, logprobs: Sequence[TextLogprob]) -> Json | None:
        return {"content": chat_entries(logprobs), "refusal": None} if self._has_logprobs else None
