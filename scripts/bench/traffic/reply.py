"""What one request got back: filled in event by event, as they come. Knows the wire format, no sockets, no clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    sent_s: float
    first_s: float | None = None  # when the first text came
    last_s: float | None = None  # when the last text came
    ended_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    text: str = ""
    chunks: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None

    def hear(self, line: str, now_s: float) -> bool:
        """One line of the stream. Whether more may come. Raises RuntimeError for an error in the stream."""
        if not line.startswith("data:"):
            return True
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return False
        event = json.loads(data)
        if event.get("error"):
            raise RuntimeError(json.dumps(event["error"])[:300])
        for choice in event.get("choices") or ():
            self._hear_text(choice.get("text"), now_s)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self._hear_usage(event)
        return True

    def end(self, now_s: float, error: str | None = None) -> None:
        self.ended_s, self.error = now_s, error
        self.new_tokens = self.new_tokens or self.chunks

    def _hear_text(self, text: str | None, now_s: float) -> None:
        if not text:
            return
        if self.last_s is None:
            self.first_s = now_s
        else:
            self.gaps_s.append(now_s - self.last_s)
        self.last_s = now_s
        self.text += text
        self.chunks += 1

    def _hear_usage(self, event: dict[str, Any]) -> None:
        usage = event.get("usage") or {}
        self.prompt_tokens = usage.get("prompt_tokens") or self.prompt_tokens
        self.new_tokens = usage.get("completion_tokens") or self.new_tokens
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        if cached is None:
            cached = (event.get("timings") or {}).get("cache_n")  # llama.cpp
        if cached is not None:
            self.cached_tokens = cached
