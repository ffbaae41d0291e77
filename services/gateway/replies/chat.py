"""OpenAI's chat completion and its chunks: the role once, finish_reason null up to the one last chunk of the choice."""

from __future__ import annotations

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.logprobs import chat_entries
from services.gateway.replies.openai import Chunks, StreamOptions, usage_body
from services.gateway.replies.reply import Json, ReplyHead


class ChatReply:
    def __init__(self, head: ReplyHead, *, options: StreamOptions, has_logprobs: bool) -> None:
        self._head: Json = {
            "id": f"chatcmpl-{head.request_id}",
            "created": head.created_s,
            "model": head.model_id,
        }
        self._chunks = Chunks(self._head | {"object": "chat.completion.chunk"}, options)
        self._has_logprobs = has_logprobs
        self._has_begun = False

    def whole(self, output: Delta, ending: Ending) -> Json:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": output.text, "refusal": None},
            "logprobs": self._logprobs(output),
            "finish_reason": ending.finish_reason,
        }
        return self._head | {"object": "chat.completion", "choices": [choice], "usage": usage_body(ending.usage)}

    def events(self, delta: Delta) -> list[Json]:
        chunks = self._opening(delta.usage)
        if delta.text or (self._has_logprobs and delta.logprobs):
            choice = {"delta": {"content": delta.text}, "logprobs": self._logprobs(delta), "finish_reason": None}
            chunks.append(self._chunks.choice(choice, delta.usage))
        return chunks

    def closing(self, ending: Ending) -> list[Json]:
        choice: Json = {"delta": {}, "logprobs": None, "finish_reason": ending.finish_reason}
        return self._opening(ending.usage) + self._chunks.closing(choice, ending.usage)

    def _opening(self, usage: Usage) -> list[Json]:
        if self._has_begun:
            return []
        self._has_begun = True
        choice = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return [self._chunks.choice(choice, usage)]

    def _logprobs(self, delta: Delta) -> Json | None:
        return {"content": chat_entries(delta.logprobs), "refusal": None} if self._has_logprobs else None
