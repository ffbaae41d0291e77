"""What OpenAI's two replies share: the chunks of a stream and the usage."""

from __future__ import annotations

import msgspec

from services.gateway.generation import Usage
from services.gateway.replies.reply import Json


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False
    continuous_usage_stats: bool = False  # with include_usage: the figures so far in every chunk
    include_obfuscation: bool = False  # padding against observers of packet lengths: accepted, not done


def usage_body(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


class Chunks:
    """The chunks of one stream: the same head in each, and usage where it was asked for."""

    def __init__(self, head: Json, options: StreamOptions) -> None:
        self._head = head
        self._options = options

    def choice(self, choice: Json, usage: Usage) -> Json:
        chunk = self._head | {"choices": [{"index": 0} | choice]}
        if not self._options.include_usage:
            return chunk
        return chunk | {"usage": usage_body(usage) if self._options.continuous_usage_stats else None}

    def closing(self, last_choice: Json, usage: Usage) -> list[Json]:
        """The one chunk with a finish_reason, and after it the totals, without a choice."""
        chunks = [self.choice(last_choice, usage)]
        if self._options.include_usage:
            chunks.append(self._head | {"choices": [], "usage": usage_body(usage)})
        return chunks
