"""Which tokenizer encodes next: round robin among those with a free credit. Pure bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass, field

EncodeKey = tuple[str, int]  # request_id, attempt


@dataclass
class _Tokenizer:
    name: str
    credits: int = 0
    encoding: dict[EncodeKey, float] = field(default_factory=dict)  # since when: each of them holds a credit


class TokenizerPool:
    """The tokenizers stand in the order of their turns: whoever was given work goes to the end."""

    def __init__(self) -> None:
        self._tokenizers: dict[str, _Tokenizer] = {}

    def joined(self, peer: str, name: str) -> None:
        self._tokenizers[peer] = _Tokenizer(name)

    def left(self, peer: str) -> list[EncodeKey]:
        """What it had not answered."""
        tokenizer = self._tokenizers.pop(peer, None)
        return sorted(tokenizer.encoding) if tokenizer is not None else []

    def ready(self, peer: str, granted: int) -> None:
        if peer in self._tokenizers:
            self._tokenizers[peer].credits = granted

    def take(self, key: EncodeKey, now_s: float) -> str | None:
        """The tokenizer that encodes this, one of its credits spent; None if there is no free credit."""
        for peer, tokenizer in self._tokenizers.items():
            if len(tokenizer.encoding) < tokenizer.credits:
                tokenizer.encoding[key] = now_s
                self._tokenizers[peer] = self._tokenizers.pop(peer)
                return peer
        return None

    def answered(self, peer: str, key: EncodeKey) -> None:
        if peer in self._tokenizers:
            self._tokenizers[peer].encoding.pop(key, None)

    def expire(self, *, taken_before_s: float) -> None:
        """Give back the credits of what was lost on its way to a tokenizer or back; an answer after all is ignored."""
        for tokenizer in self._tokenizers.values():
            tokenizer.encoding = {key: at_s for key, at_s in tokenizer.encoding.items() if at_s >= taken_before_s}

    def name(self, peer: str) -> str | None:
        tokenizer = self._tokenizers.get(peer)
        return tokenizer.name if tokenizer is not None else None
