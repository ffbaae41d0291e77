"""What OpenAI's replies share: the chunks of a stream and the usage."""

from __future__ import annotations

import msgspec

from services.gateway.generation import Usage, total
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
    """The chunks of one stream: the same head in each, and usage where it was asked for.

    Args:
        samples: how many neighbouring choices have one prompt.
    """

    def __init__(self, head: Json, options: StreamOptions, samples: int) -> None:
        self._head = head
        self._options = options
        self._samples = samples
        self._so_far: dict[int, Usage] = {}  # by choice

    def choice(self, index: int, choice: Json, usage: Usage) -> Json:
        """Args:
        usage: of this choice so far.
        """
        chunk = self._head | {"choices": [{"index": index} | choice]}
        if not self._options.include_usage:
            return chunk
        return chunk | {"usage": self._usage_with(index, usage)}

    def closing(self, usage: Usage) -> list[Json]:
        """After the last choice: the totals, if they are wanted."""
        return [self._head | {"choices": [], "usage": usage_body(usage)}] if self._options.include_usage else []

    def _usage_with(self, index: int, usage: Usage) -> Json | None:
        if not self._options.continuous_usage_stats:
            return None
        self._so_far[index] = usage
        return usage_body(total(self._so_far, self._samples))
