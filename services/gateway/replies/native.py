"""SGLang's reply. In a stream each event holds all output so far, and the last one the finish_reason."""

from __future__ import annotations

from dataclasses import dataclass

from services.gateway.generation import NOTHING, Delta, Ending, Usage, merge
from services.gateway.replies.logprobs import native_top_triples, native_triples
from services.gateway.replies.reply import Json, ReplyHead


@dataclass(frozen=True)
class NativeOptions:
    client_id: str | None  # echoed as the reply's id
    has_logprobs: bool
    has_top_logprobs: bool
    has_text_in_logprobs: bool


class NativeReply:
    def __init__(self, head: ReplyHead, *, options: NativeOptions) -> None:
        self._head = head
        self._options = options
        self._so_far = NOTHING

    def whole(self, output: Delta, ending: Ending) -> Json:
        elapsed = {"e2e_latency": self._head.elapsed_s()}
        return self._body(output, ending.usage, _finish_reason(ending), elapsed)

    def events(self, delta: Delta) -> list[Json]:
        self._so_far = merge([self._so_far, delta])
        return [self._body(self._so_far, delta.usage, None, {})]

    def closing(self, ending: Ending) -> list[Json]:
        return [self.whole(self._so_far, ending)]

    def _body(self, output: Delta, usage: Usage, finish_reason: Json | None, more: Json) -> Json:
        meta_info: Json = {
            "id": self._options.client_id or self._head.request_id,
            "finish_reason": finish_reason,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        }
        return {
            "text": output.text,
            "output_ids": output.token_ids,
            "meta_info": meta_info | self._logprobs(output) | more,
        }

    def _logprobs(self, output: Delta) -> Json:
        options = self._options
        if not options.has_logprobs:
            return {}
        with_text = options.has_text_in_logprobs
        chosen = {"output_token_logprobs": native_triples(output.logprobs, with_text=with_text)}
        if not options.has_top_logprobs:
            return chosen
        return chosen | {"output_top_logprobs": native_top_triples(output.logprobs, with_text=with_text)}


def _finish_reason(ending: Ending) -> Json:
    if ending.finish_reason == "length":
        return {"type": "length", "length": ending.usage.completion_tokens}
    return {"type": ending.finish_reason, "matched": ending.matched_stop}
