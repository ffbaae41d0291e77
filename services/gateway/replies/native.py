"""SGLang's reply. In a stream each event holds all output so far of one generation, and the last the finish_reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.gateway.generation import NOTHING, Delta, Ending, Usage, merge
from services.gateway.replies.logprobs import native_top_triples, native_triples
from services.gateway.replies.reply import Json, Output, ReplyHead


@dataclass(frozen=True)
class NativeOptions:
    client_id: str | None  # echoed as the reply's id
    has_logprobs: bool
    has_top_logprobs: bool
    has_text_in_logprobs: bool


class NativeReply:
    """Args:
    options: of each generation.
    is_list: the reply is a list, and each event says which generation it is of.
    """

    named_events = False

    def __init__(self, head: ReplyHead, *, options: Sequence[NativeOptions], is_list: bool) -> None:
        self._head = head
        self._options = options
        self._is_list = is_list
        self._so_far: defaultdict[int, Delta] = defaultdict(lambda: NOTHING)

    def whole(self, outputs: Sequence[Output], _usage: Usage) -> Any:
        bodies = [self._whole(index, *output) for index, output in enumerate(outputs)]
        return bodies if self._is_list else bodies[0]

    def events(self, index: int, delta: Delta) -> list[Json]:
        so_far = self._so_far[index] = merge([self._so_far[index], delta])
        return [self._event(index, self._body(index, so_far, delta.usage, None))]

    def ended(self, index: int, ending: Ending) -> list[Json]:
        return [self._event(index, self._whole(index, self._so_far[index], ending))]

    def closing(self, _usage: Usage) -> list[Json]:
        return []

    def _event(self, index: int, body: Json) -> Json:
        return body | {"index": index} if self._is_list else body

    def _whole(self, index: int, output: Delta, ending: Ending) -> Json:
        body = self._body(index, output, ending.usage, _finish_reason(ending))
        body["meta_info"]["e2e_latency"] = self._head.elapsed_s()
        return body

    def _body(self, index: int, output: Delta, usage: Usage, finish_reason: Json | None) -> Json:
        options = self._options[index]
        meta_info: Json = {
            "id": options.client_id or self._own_id(index),
            "finish_reason": finish_reason,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        }
        return {
            "text": output.text,
            "output_ids": output.token_ids,
            "meta_info": meta_info | _logprobs(output, options),
        }

    def _own_id(self, index: int) -> str:
        return f"{self._head.request_id}-{index}" if self._is_list else self._head.request_id


def _logprobs(output: Delta, options: NativeOptions) -> Json:
    if not options.has_logprobs:
        return {}
    with_text = options.has_text_in_logprobs
    chosen = {
        "input_token_logprobs": native_triples(output.prompt_logprobs, with_text=with_text),
        "output_token_logprobs": native_triples(output.logprobs, with_text=with_text),
    }
    if not options.has_top_logprobs:
        return chosen
    return chosen | {
        "input_top_logprobs": native_top_triples(output.prompt_logprobs, with_text=with_text),
        "output_top_logprobs": native_top_triples(output.logprobs, with_text=with_text),
    }


def _finish_reason(ending: Ending) -> Json:
    match ending.finish_reason:
        case "length":
            return {"type": "length", "length": ending.usage.completion_tokens}
        case "abort":
            return {"type": "abort", "message": "Aborted by the client"}
        case _:
            return {"type": ending.finish_reason, "matched": ending.matched_stop}
