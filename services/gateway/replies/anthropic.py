"""Anthropic's message, and the events that it streams as."""

from __future__ import annotations

from collections.abc import Sequence

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.anthropic_content import ContentBlocks
from services.gateway.replies.reply import Json, Output, ReplyHead
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat


class AnthropicReply:
    """Args:
    max_tokens: as many as the client allowed. The context may have had room for fewer.
    tools, reasoning, shows_thoughts: see `ContentBlocks`.
    """

    named_events = True

    def __init__(
        self,
        head: ReplyHead,
        *,
        max_tokens: int,
        tools: ToolFormat | None = None,
        reasoning: ReasoningFormat | None = None,
        shows_thoughts: bool = False,
    ) -> None:
        self._head: Json = {
            "id": f"msg_{head.request_id}",
            "type": "message",
            "role": "assistant",
            "model": head.model_id,
        }
        self._max_tokens = max_tokens
        self._content = ContentBlocks(tools, reasoning, shows_thoughts=shows_thoughts)
        self._has_begun = False

    def whole(self, outputs: Sequence[Output], usage: Usage) -> Json:
        ((output, ending),) = outputs
        content = self._content.whole(output.text)
        return self._message(content, self._stop(ending), usage)

    def events(self, _index: int, delta: Delta) -> list[Json]:
        return [*self._opening(delta.usage), *self._content.events(delta.text)]

    def ended(self, _index: int, ending: Ending) -> list[Json]:
        last = {"type": "message_delta", "delta": self._stop(ending), "usage": _usage(ending.usage)}
        return [*self._opening(ending.usage), *self._content.last_events(), last]

    def closing(self, _usage: Usage) -> list[Json]:
        return [{"type": "message_stop"}]

    def _opening(self, usage: Usage) -> list[Json]:
        if self._has_begun:
            return []
        self._has_begun = True
        unended = {"stop_reason": None, "stop_sequence": None}
        return [{"type": "message_start", "message": self._message([], unended, usage)}]

    def _message(self, content: list[Json], stop: Json, usage: Usage) -> Json:
        return self._head | {"content": content} | stop | {"usage": _usage(usage)}

    def _stop(self, ending: Ending) -> Json:
        """Once all text was fed."""
        reason = self._stop_reason(ending)
        return {"stop_reason": reason, "stop_sequence": ending.matched_stop if reason == "stop_sequence" else None}

    def _stop_reason(self, ending: Ending) -> str:
        """A cut output is called that, whatever calls it holds."""
        if ending.finish_reason == "length":
            is_full = ending.usage.completion_tokens < self._max_tokens
            return "model_context_window_exceeded" if is_full else "max_tokens"
        if self._content.has_calls:
            return "tool_use"
        return "stop_sequence" if isinstance(ending.matched_stop, str) else "end_turn"


def _usage(usage: Usage) -> Json:
    """The input is counted in two parts. What is written to the cache costs nothing, and is not counted apart."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
