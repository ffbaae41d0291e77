"""How the options of a generation are called in Python, and their way into a request's `Sampling`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from sapwood.backends.protocol import Sampling
from sapwood.errors import ProgramError


class OneSampleOptions(TypedDict, total=False):
    min_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    stop_regex: str | Sequence[str]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[str, float]
    ignore_eos: bool
    seed: int | None
    regex: str | None
    ebnf: str | None
    json_whitespace: str


class SamplingOptions(OneSampleOptions, total=False):
    max_tokens: int | None
    n: int
    json_schema: str | None
    choices: Sequence[str] | None


NAMES = frozenset(Sampling.__struct_fields__)
LISTS = ("stop", "stop_token_ids", "stop_regex", "choices")


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """Raises ProgramError for an option that there is not."""
    check_names(options, NAMES)
    given = {name: value for name, value in options.items() if value is not None}
    for name in LISTS:
        if name in given:
            given[name] = listed(given[name])
    return Sampling(**given)


def check_names(options: Iterable[str], names: Collection[str]) -> None:
    for option in options:
        if option not in names:
            near = difflib.get_close_matches(option, names, 1)
            raise ProgramError(f"there is no option {option}" + (f"; did you mean {near[0]}?" if near else ""))


def with_defaults(own: Sampling, defaults: Sampling) -> Sampling:
    """What is given itself, and for the rest what holds for the whole program."""
    given = msgspec.to_builtins(own)  # leaves out what is at its default
    return msgspec.structs.replace(defaults, **{name: getattr(own, name) for name in given})


def listed(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
