"""Log-probabilities in each API's shape. Strict JSON has no infinity: what is impossible gets OpenAI's -9999."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from shared.wire import TextLogprob

IMPOSSIBLE = -9999.0


def strict(logprob: float | None) -> float | None:
    """None stays: of the first token of a prompt there is none."""
    if logprob is None:
        return None
    return logprob if logprob > IMPOSSIBLE else IMPOSSIBLE  # also for NaN, which is greater than nothing


def chat_entries(logprobs: Sequence[TextLogprob]) -> list[dict[str, Any]]:
    return [
        _chat_entry(entry.logprob, entry.token_bytes)
        | {"top_logprobs": [_chat_entry(logprob, token_bytes) for _, logprob, token_bytes in entry.top]}
        for entry in logprobs
    ]


def native_triples(logprobs: Sequence[TextLogprob], *, with_text: bool) -> list[list[Any]]:
    return [_native_triple(entry.logprob, entry.token_id, entry.token_bytes, with_text) for entry in logprobs]


def native_top_triples(logprobs: Sequence[TextLogprob], *, with_text: bool) -> list[list[list[Any]] | None]:
    return [
        [_native_triple(logprob, token_id, token_bytes, with_text) for token_id, logprob, token_bytes in entry.top]
        if entry.logprob is not None
        else None
        for entry in logprobs
    ]


class CompletionLogprobs:
    """OpenAI's four parallel lists. Remembers where in the text the next token begins, from piece to piece."""

    def __init__(self) -> None:
        self._offset = 0
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def lists(self, logprobs: Sequence[TextLogprob]) -> dict[str, Any]:
        return {
            "tokens": [_token_name(entry.token_bytes) for entry in logprobs],
            "token_logprobs": [strict(entry.logprob) for entry in logprobs],
            "top_logprobs": [_tops(entry) for entry in logprobs],
            "text_offset": [self._next_offset(entry.token_bytes) for entry in logprobs],
        }

    def _next_offset(self, token_bytes: bytes) -> int:
        """Characters that were complete before this token."""
        offset = self._offset
        self._offset += len(self._characters.decode(token_bytes))
        return offset


def _tops(entry: TextLogprob) -> dict[str, float | None] | None:
    """The chosen token is among them, as OpenAI has it."""
    if entry.logprob is None:
        return None
    tops = {_token_name(token_bytes): strict(logprob) for _, logprob, token_bytes in entry.top}
    return tops | {_token_name(entry.token_bytes): strict(entry.logprob)}


def _chat_entry(logprob: float | None, token_bytes: bytes) -> dict[str, Any]:
    return {
        "token": token_bytes.decode("utf-8", "replace"),
        "logprob": strict(logprob),
        "bytes": list(token_bytes),
    }


def _native_triple(logprob: float | None, token_id: int, token_bytes: bytes, with_text: bool) -> list[Any]:
    return [strict(logprob), token_id, token_bytes.decode("utf-8", "replace") if with_text else None]


def _token_name(token_bytes: bytes) -> str:
    r"""A token that is a part of a character is called "bytes:\xf0\x9f", so that no two tokens share a name."""
    try:
        return token_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token_bytes)
