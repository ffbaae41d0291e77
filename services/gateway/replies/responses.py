"""OpenAI's response: whole, as numbered events in their order, or as far as it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from services.gateway.generation import Delta, Ending, Usage
from services.gateway.replies.reply import Json, Output, ReplyHead
from services.gateway.replies.response_output import ResponseOutput
from shared import wire
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat

Status: TypeAlias = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

OTHERS: Json = {  # of what there is nothing here
    "max_tool_calls": None,
    "object": "response",
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
}


def response_id(request_id: str) -> str:
    return f"resp_{request_id}"


class ResponseReply:
    """Args:
    echo: the fields of its request that a response repeats.
    tools: how calls are written, if the text is to be searched for calls.
    reasoning: how thoughts are set apart, if they are to be told apart.
    on_end: is told of a response that came to its end, before its client is.
    """

    named_events = True

    def __init__(
        self,
        head: ReplyHead,
        *,
        echo: Json,
        tools: ToolFormat | None = None,
        reasoning: ReasoningFormat | None = None,
        on_end: Callable[[Json], None] = lambda response: None,
    ) -> None:
        self._head = head
        self._echo = echo
        self._on_end = on_end
        self._output = ResponseOutput(head.request_id, tools, reasoning)
        self._status: Status = "queued"
        self._usage: Usage | None = None
        self._error: Json | None = None
        self._completed_at: int | None = None
        self._sent = 0  # events

    def whole(self, outputs: Sequence[Output], usage: Usage) -> Json:
        for index, (delta, ending) in enumerate(outputs):
            self.events(index, delta)
            self.ended(index, ending)
        self.closing(usage)
        return self.response()

    def events(self, _index: int, delta: Delta) -> list[Json]:
        return self._numbered([*self._opening(), *self._output.feed(delta.text, delta.logprobs)])

    def ended(self, _index: int, ending: Ending) -> list[Json]:
        opening = self._opening()
        is_cut = ending.finish_reason == "length"
        last = self._output.finish("incomplete" if is_cut else "completed")
        self._status = "incomplete" if is_cut else "completed"
        return self._numbered([*opening, *last])

    def closing(self, usage: Usage) -> list[Json]:
        self._usage = usage
        self._completed_at = self._head.created_s + int(self._head.elapsed_s())
        response = self.response()
        self._on_end(response)
        return self._numbered([{"type": f"response.{self._status}", "response": response}])

    def fail(self, error: wire.Error) -> None:
        self._error = {"code": _code(error), "message": error.message, "param": error.param}
        self._end_early("failed")

    def cancel(self) -> None:
        self._end_early("cancelled")

    def response(self) -> Json:
        """As far as it has come."""
        is_complete = self._status == "completed"
        return {
            "id": response_id(self._head.request_id),
            "created_at": self._head.created_s,
            "completed_at": self._completed_at if is_complete else None,
            "status": self._status,
            "model": self._head.model_id,
            "output": self._output.items,
            "error": self._error,
            "incomplete_details": {"reason": "max_output_tokens"} if self._status == "incomplete" else None,
            "usage": _usage(self._usage) if self._usage is not None else None,
            **OTHERS,
            **self._echo,
        }

    def _opening(self) -> list[Json]:
        if self._status != "queued":
            return []
        self._status = "in_progress"
        return [{"type": f"response.{name}", "response": self.response()} for name in ("created", "in_progress")]

    def _numbered(self, events: list[Json]) -> list[Json]:
        first, self._sent = self._sent, self._sent + len(events)
        return [event | {"sequence_number": number} for number, event in enumerate(events, first)]

    def _end_early(self, status: Status) -> None:
        if self._status != "queued":
            self._output.finish("incomplete")
        self._status = status


def _usage(usage: Usage) -> Json:
    """The cache keeps itself, so nothing counts as written to it."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }


def _code(error: wire.Error) -> str:
    """One of those that OpenAI has for a response."""
    if error.status >= 500:
        return "server_error"
    return "rate_limit_exceeded" if error.status == 429 else "invalid_prompt"
