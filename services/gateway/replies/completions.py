"""OpenAI's completion and its chunks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.logprobs import CompletionLogprobs, strict
from services.gateway.replies.openai import Chunks, StreamOptions, usage_body
from services.gateway.replies.reply import Json, Output, ReplyHead


class CompletionReply:
    """Args:
    samples: drawn of each prompt; of these `keep` are answered, the likeliest. In a stream it is all of them.
    """

    named_events = False

    def __init__(
        self, head: ReplyHead, *, options: StreamOptions, has_logprobs: bool, samples: int = 1, keep: int = 1
    ) -> None:
        self._head: Json = {
            "id": f"cmpl-{head.request_id}",
            "object": "text_completion",
            "created": head.created_s,
            "model": head.model_id,
        }
        self._prompts = head.prompts
        self._samples = samples
        self._keep = keep
        self._chunks = Chunks(self._head, options, samples)
        self._has_logprobs = has_logprobs
        self._logprobs: defaultdict[int, CompletionLogprobs] = defaultdict(CompletionLogprobs)
        self._begun: set[int] = set()

    def whole(self, outputs: Sequence[Output], usage: Usage) -> Json:
        kept = self._kept(outputs)
        choices = [
            {"index": place} | self._choice(index, outputs[index].delta, outputs[index].ending.finish_reason)
            for place, index in enumerate(kept)
        ]
        return self._head | {"choices": choices, "usage": usage_body(usage)}

    def events(self, index: int, delta: Delta) -> list[Json]:
        if not delta.text and not (self._has_logprobs and (delta.logprobs or delta.prompt_logprobs)):
            return []
        return [self._chunks.choice(index, self._choice(index, delta, None), delta.usage)]

    def ended(self, index: int, ending: Ending) -> list[Json]:
        choice = self._choice(index, Delta("", (), ending.usage), ending.finish_reason) | {"logprobs": None}
        return [self._chunks.choice(index, choice, ending.usage)]

    def closing(self, usage: Usage) -> list[Json]:
        return self._chunks.closing(usage)

    def _choice(self, index: int, delta: Delta, finish_reason: str | None) -> Json:
        echoed = self._prompts[index // self._samples] if self._prompts and index not in self._begun else ""
        self._begun.add(index)
        scored = (*delta.prompt_logprobs, *delta.logprobs)
        logprobs = self._logprobs[index].lists(scored) if self._has_logprobs else None
        return {"text": echoed + delta.text, "logprobs": logprobs, "finish_reason": finish_reason}

    def _kept(self, outputs: Sequence[Output]) -> list[int]:
        if self._keep == self._samples:
            return list(range(len(outputs)))
        starts = range(0, len(outputs), self._samples)
        prompts = [range(start, start + self._samples) for start in starts]
        likeliest = [sorted(prompt, key=lambda index: -_likelihood(outputs[index].delta)) for prompt in prompts]
        return [index for prompt in likeliest for index in prompt[: self._keep]]


def _likelihood(output: Delta) -> float:
    """The mean log-probability of its tokens, as OpenAI has it."""
    logprobs = [strict(entry.logprob) or 0.0 for entry in output.logprobs]
    return math.fsum(logprobs) / max(len(logprobs), 1)
