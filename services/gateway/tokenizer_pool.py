"""Which tokenizer encodes next: round robin among those with a free credit. Pure bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass, field

EncodeKey = tuple[str, int]  # request_id, attempt


@dataclass
class _Tokenizer:
    name: str
    credits: int = 0
    encoding: set[EncodeKey] = field(default_factory=set)


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

    def take(self, key: EncodeKey) -> str | None:
        """The tokenizer that encodes this, one of its credits spent; None if there is no free credit."""
        for peer, tokenizer in self._tokenizers.items():
            if len(tokenizer.encoding) < tokenizer.credits:
                tokenizer.encoding.add(key)
                self._tokenizers[peer] = self._tokenizers.pop(peer)
                return peer
        return None

    def answered(self, peer: str, key: EncodeKey) -> None:
        if peer in self._tokenizers:
            self._tokenizers[peer].encoding.discard(key)

    def name(self, peer: str) -> str | None:
        tokenizer = self._tokenizers.get(peer)
        return tokenizer.name if tokenizer is not None else None
