"""Prompts for a load: common words, about a token each. A seed always gives the same ones."""

from __future__ import annotations

import random

TEXT = """
the of and to in for that with on this are from have you not but they what all were when your can said there use each
which she how their will other about out many then them these some her would make like him into time has look two more
write see number way could people than first water been call who oil its now find long down day did get come made may
part over new sound take only little work know place year live back give most very after thing our just name good
"""
WORDS = TEXT.split()


def prompts(seed: int, *, requests: int, prompt_tokens: int, shared_tokens: int) -> list[str]:
    """All begin with the same `shared_tokens` words."""
    chance = random.Random(seed)
    shared = _words(chance, shared_tokens)
    return [" ".join(shared + _words(chance, prompt_tokens - shared_tokens)) for _ in range(requests)]


def _words(chance: random.Random, count: int) -> list[str]:
    return [chance.choice(WORDS) for _ in range(count)]
