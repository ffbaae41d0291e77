"""OpenAI's completion and its chunks."""

from __future__ import annotations

from services.gateway.generation import Delta, Ending
from services.gateway.replies.logprobs import CompletionLogprobs
from services.gateway.replies.openai import Chunks, StreamOptions, usage_body
from services.gateway.replies.reply import Json, ReplyHead


class CompletionReply:
    def __init__(self, head: ReplyHead, *, options: StreamOptions, has_logprobs: bool) -> None:
        self._head: Json = {
            "id": f"cmpl-{head.request_id}",
            "object": "text_completion",
            "created": head.created_s,
            "model": head.model_id,
        }
        self._chunks = Chunks(self._head, options)
        self._logprobs = CompletionLogprobs() if has_logprobs else None

    def whole(self, output: Delta, ending: Ending) -> Json:
        choice = self._choice(output, ending.finish_reason)
        return self._head | {"choices": [{"index": 0} | choice], "usage": usage_body(ending.usage)}

    def events(self, delta: Delta) -> list[Json]:
        if not delta.text and not (self._logprobs is not None and delta.logprobs):
            return []
        return [self._chunks.choice(self._choice(delta, None), delta.usage)]

    def closing(self, ending: Ending) -> list[Json]:
        choice = {"text": "", "logprobs": None, "finish_reason": ending.finish_reason}
        return self._chunks.closing(choice, ending.usage)

    def _choice(self, delta: Delta, finish_reason: str | None) -> Json:
        logprobs = self._logprobs.lists(delta.logprobs) if self._logprobs is not None else None
        return {"text": delta.text, "logprobs": logprobs, "finish_reason": finish_reason}
