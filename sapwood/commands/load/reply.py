"""What one request of the load got back, filled in event by event. Knows the wire format; no socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None


class _Choice(msgspec.Struct):
    text: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: dict[str, Any] | None = None


@dataclass
class Reply:
    """Times are of one clock, any clock."""

    sent_s: float
    first_s: float | None = None  # the first text
    last_s: float | None = None  # the last text
    ended_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)  # between pieces of text
    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int | None = None  # None: the server does not say
    is_complete: bool = False
    error: str | None = None

    def hear(self, line: str, now_s: float) -> None:
        """One line of a stream of completions. Raises ValueError for what is none."""
        if not line.startswith("data:"):
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.is_complete = True
            return
        event = msgspec.json.decode(data, type=_Event)
        if event.error is not None:
            self.error = str(event.error.get("message", event.error))
        if any(choice.text for choice in event.choices):
            self._hear_text(now_s)
        if event.usage is not None:
            self._hear_usage(event.usage)

    def end(self, now_s: float, error: str | None = None) -> None:
        self.ended_s = now_s
        self.error = self.error or error or (None if self.is_complete else "the stream broke off")

    @property
    def token_s(self) -> float | None:
        """From token to token, once it had begun."""
        if self.first_s is None or self.last_s is None or self.new_tokens < 2:
            return None
        return (self.last_s - self.first_s) / (self.new_tokens - 1)

    def _hear_text(self, now_s: float) -> None:
        if self.last_s is None:
            self.first_s = now_s
        else:
            self.gaps_s.append(now_s - self.last_s)
        self.last_s = now_s

    def _hear_usage(self, usage: _Usage) -> None:
        self.prompt_tokens = usage.prompt_tokens
        self.new_tokens = usage.completion_tokens
        cached = (usage.prompt_tokens_details or {}).get("cached_tokens")
        self.cached_tokens = self.cached_tokens if cached is None else cached
