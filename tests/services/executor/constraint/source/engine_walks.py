"""Grammars in the engine with the bundled model's tokenizer: is a text taken, and what comes out of a random walk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint.engine import LIMITS, check, load_tokenizer
from services.executor.model.prepare import prepare
from shared.config import ModelConfig
from shared.model_card import load_card

CLOSERS = ('"', "]", "}", '"]', '"}', "}}", "]}", "0", "1")
PATIENCE = 60  # tokens, before a walk makes for the end


@cache
def bundled_tokenizer() -> LLTokenizer:
    folder, card = prepare(ModelConfig()), load_card(ModelConfig())
    return load_tokenizer(folder, card.vocab_size, card.eos_token_ids)


def matcher(grammar: str) -> LLMatcher:
    made = LLMatcher(bundled_tokenizer(), grammar, log_level=0, limits=LIMITS)
    check(made)
    return made


def takes(grammar: LLMatcher, text: str) -> bool:
    """In the tokens that the tokenizer makes of the text."""
    started = grammar.deep_copy()
    tokens = bundled_tokenizer().tokenize_str(text)
    taken = started.try_consume_tokens(tokens)
    return taken == len(tokens) and started.is_accepting()


def allowed(started: LLMatcher) -> np.ndarray:
    bits = np.unpackbits(np.frombuffer(started.compute_bitmask(), np.uint8), bitorder="little")
    check(started)
    return np.flatnonzero(bits)


def walk(grammar: LLMatcher, seed: int, most: int = 400, closers: Sequence[str] = CLOSERS) -> str | None:
    """The text of tokens drawn among those allowed, often a closer; None if it has not come to an end."""
    draw, tokenizer, started = random.Random(seed), bundled_tokenizer(), grammar.deep_copy()
    ends, closer_ids = set(tokenizer.eos_tokens), {tokenizer.tokenize_str(text)[0] for text in closers}
    tokens: list[int] = []
    while len(tokens) < most:
        choices = allowed(started)
        ending = ends.intersection(choices.tolist())
        if ending and (len(ending) == len(choices) or len(tokens) > PATIENCE or draw.random() < 0.3):
            return tokenizer.decode_bytes(tokens).decode()
        closing = sorted(closer_ids.intersection(choices.tolist()))
        token = draw.choice(closing if closing and draw.random() < 0.2 + (len(tokens) > PATIENCE) else choices.tolist())
        if token in ends:
            continue
        assert started.consume_token(token), started.get_error()
        tokens.append(token)
        if started.is_stopped():
            return tokenizer.decode_bytes(tokens).decode()
    return None
