"""Which of several texts a model finds most likely, by three measures that see length differently. Pure.

Every measure gives the place of the best in a list of scores; of equals it is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal, TypeAlias

from sapwood.backends.protocol import Score

Measure: TypeAlias = Callable[[Sequence[Score]], int]
MeasureName: TypeAlias = Literal[
    "token_length_normalized", "greedy_token_selection", "unconditional_likelihood_normalized"
]


def token_length_normalized(scores: Sequence[Score]) -> int:
    """The highest mean log-probability of a token."""
    return _first_of_highest([fmean(score.logprobs) for score in scores])


def greedy_token_selection(scores: Sequence[Score]) -> int:
    """Token by token, those with the highest one stay. Past its end, a text goes on with its mean."""
    means = [fmean(score.logprobs) for score in scores]
    left = list(range(len(scores)))
    for position in range(max(len(score.logprobs) for score in scores)):
        here = {place: _at(scores[place].logprobs, position, means[place]) for place in left}
        highest = max(here.values())
        left = [place for place in left if here[place] == highest]
    return left[0]


def unconditional_likelihood_normalized(scores: Sequence[Score]) -> int:
    """The highest mean gain over what the same tokens have with nothing before them."""
    gains = [
        fmean(here - alone for here, alone in zip(score.logprobs, score.unconditional, strict=True)) for score in scores
    ]
    return _first_of_highest(gains)


MEASURES: dict[str, Measure] = {
    "token_length_normalized": token_length_normalized,
    "greedy_token_selection": greedy_token_selection,
    "unconditional_likelihood_normalized": unconditional_likelihood_normalized,
}


def _at(logprobs: Sequence[float], position: int, beyond: float) -> float:
    return logprobs[position] if position < len(logprobs) else beyond


def _first_of_highest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
