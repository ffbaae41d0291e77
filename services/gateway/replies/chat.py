"""OpenAI's chat completion and its chunks: the role once, finish_reason null up to the last chunk of each choice."""

from __future__ import annotations

from collections.abc import Sequence

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.logprobs import chat_entries
from services.gateway.replies.message import MessageText
from services.gateway.replies.openai import Chunks, StreamOptions, usage_body
from services.gateway.replies.reply import Json, Output, ReplyHead
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat
from shared.wire import TextLogprob


class ChatReply:
    """Args:
    samples: how many choices there are.
    tools: how calls are written, if the text is to be searched for calls.
    reasoning: how thoughts are set apart, if they are to be told apart.
    """

    named_events = False

    def __init__(
        self,
        head: ReplyHead,
        *,
        options: StreamOptions,
        has_logprobs: bool,
        samples: int = 1,
        tools: ToolFormat | None = None,
        reasoning: ReasoningFormat | None = None,
    ) -> None:
        self._head: Json = {
            "id": f"chatcmpl-{head.request_id}",
            "created": head.created_s,
            "model": head.model_id,
        }
        self._chunks = Chunks(self._head | {"object": "chat.completion.chunk"}, options, samples)
        self._choices = [_Choice(MessageText(tools, reasoning), has_logprobs) for _ in range(samples)]

    def whole(self, outputs: Sequence[Output], usage: Usage) -> Json:
        choices = [
            {"index": index} | choice.whole(*output)
            for index, (choice, output) in enumerate(zip(self._choices, outputs, strict=True))
        ]
        return self._head | {"object": "chat.completion", "choices": choices, "usage": usage_body(usage)}

    def events(self, index: int, delta: Delta) -> list[Json]:
        return [self._chunks.choice(index, each, delta.usage) for each in self._choices[index].pieces(delta)]

    def ended(self, index: int, ending: Ending) -> list[Json]:
        return [self._chunks.choice(index, each, ending.usage) for each in self._choices[index].last_pieces(ending)]

    def closing(self, usage: Usage) -> list[Json]:
        return self._chunks.closing(usage)


class _Choice:
    """One of the messages, without its number."""

    def __init__(self, message: MessageText, has_logprobs: bool) -> None:
        self._message = message
        self._has_logprobs = has_logprobs
        self._has_begun = False

    def whole(self, output: Delta, ending: Ending) -> Json:
        return {
            "message": self._message.whole(output.text),
            "logprobs": self._logprobs(output.logprobs),
            "finish_reason": self._message.finish_reason(ending),
        }

    def pieces(self, delta: Delta) -> list[Json]:
        """The first carries the log-probabilities of all tokens of the delta, said or held back."""
        logprobs = delta.logprobs if self._has_logprobs else ()
        said = self._message.deltas(delta.text) or ([self._message.empty_delta] if logprobs else [])
        return self._opening() + [self._piece(each, () if place else logprobs) for place, each in enumerate(said)]

    def last_pieces(self, ending: Ending) -> list[Json]:
        last = [self._piece(delta) for delta in self._message.last_deltas()]
        return [*self._opening(), *last, self._piece({}) | {"finish_reason": self._message.finish_reason(ending)}]

    def _opening(self) -> list[Json]:
        if self._has_begun:
            return []
        self._has_begun = True
        return [self._piece(self._message.first_delta)]

    def _piece(self, delta: Json, logprobs: Sequence[TextLogprob] = ()) -> Json:
        return {"delta": delta, "logprobs": self._logprobs(logprobs) if logprobs else None, "finish_reason": None}

    def _logprobs(self, logprobs: Sequence[TextLogprob]) -> Json | None:
        return {"content": chat_entries(logprobs), "refusal": None} if self._has_logprobs else None
