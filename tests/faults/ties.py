"""Where two runs of one request part: how close the choice was, by a model that has no part in either of them.

What a request is batched with changes the order of sums, and so the last bits of its logits. Where two tokens are as
good as equal, or the number drawn lies on the edge between them, either may come, and what follows differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from services.executor.constraint.engine import Grammar, load_tokenizer
from services.executor.constraint.source.translate import translate
from services.executor.uniform import uniform
from shared import wire
from shared.config import ConstraintsConfig, ModelConfig
from shared.model_card import TOKENIZER_FILE, load_card
from tests.faults.workload import Work
from tests.support.bundled import bundled_folder
from tests.support.oracle import oracle_model

TIE = 1e-3  # of logits, or of probability
LOGPROB_ERROR = 1e-3


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (one, other) in pairs if one != other), None)


def distance(work: Work, common: Sequence[int], one: int, other: int) -> float:
    """How far the choice between two tokens, behind the common ones, was from falling the other way."""
    prompt = _tokenizer().encode(work.prompt, add_special_tokens=False).ids
    logits = _logits([*prompt, *common])
    allowed = _allowed(work, common)
    assert allowed[[one, other]].all(), "the constraint allows one of them alone"
    logits[~allowed] = -np.inf
    if work.temperature == 0:
        return float(logits.max() - min(logits[one], logits[other]))
    drawn = uniform(work.number, len(prompt) + len(common))
    return distance_to_edge(logits / work.temperature, drawn, one, other)


def distance_to_edge(logits: np.ndarray[Any, Any], drawn: float, one: int, other: int) -> float:
    """Or how close the two are in the order of probability, if that is closer: then they may stand in either order."""
    exponentials = np.exp(logits - logits.max())
    probabilities = exponentials / exponentials.sum()
    order = np.argsort(-probabilities, kind="stable")
    ends = np.cumsum(probabilities[order])
    places = {int(token): place for place, token in enumerate(order)}

    def outside(token: int) -> float:
        end = float(ends[places[token]])
        return max(0.0, end - float(probabilities[token]) - drawn, drawn - end)

    return min(max(outside(one), outside(other)), float(abs(logits[one] - logits[other])))


def _logits(token_ids: Sequence[int]) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        found: np.ndarray[Any, Any] = oracle_model()(torch.tensor([token_ids])).logits[0, -1].double().numpy()
    return found


def _allowed(work: Work, common: Sequence[int]) -> np.ndarray[Any, Any]:
    """(vocab_size,) bool."""
    card = load_card(ModelConfig(prepared=str(bundled_folder())))
    if work.regex is None:
        allowed = np.ones(card.vocab_size, bool)
    else:
        matcher = _grammar(work.regex).start()
        assert all(matcher.consume_token(token_id) for token_id in common)
        words = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(words, bitorder="little")[: card.vocab_size].astype(bool)
    allowed[list(card.eos_token_ids)] = False  # ignore_eos
    return allowed


@cache
def _grammar(regex: str) -> Grammar:
    folder = bundled_folder()
    card = load_card(ModelConfig(prepared=str(folder)))
    text = translate(wire.Constraint("regex", regex), ConstraintsConfig())
    return Grammar(regex, text, load_tokenizer(Path(folder), card.vocab_size, card.eos_token_ids))


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(bundled_folder() / TOKENIZER_FILE))
