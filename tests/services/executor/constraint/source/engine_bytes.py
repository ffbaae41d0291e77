"""What the engine takes, byte by byte: a vocabulary of the 256 bytes, so no tokenizer has a say."""

from __future__ import annotations

from functools import lru_cache

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

LIMITS = LLParserLimits(verbose_errors=False)


@lru_cache(maxsize=1)
def byte_tokenizer() -> LLTokenizer:
    return LLTokenizer("byte")


def matcher(grammar: str) -> LLMatcher:
    made = LLMatcher(byte_tokenizer(), grammar, log_level=0, limits=LIMITS)
    assert not made.is_error(), made.get_error()
    return made


def takes(grammar: str, text: str) -> bool:
    """Whether the whole text is an output of this grammar."""
    started = matcher(grammar)
    taken = started.try_consume_tokens(list(text.encode()))
    assert not started.is_error(), started.get_error()
    return taken == len(text.encode()) and started.is_accepting()
