"""How the options of a generation are called in Python, and their way into a request's `Sampling`."""

from __future__ import annotations

import difflib
import math
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


SAMPLING_NAMES = frozenset(Sampling.__struct_fields__)
REPORT_NAMES = frozenset({"return_logprob", "top_logprobs_num", "logprob_start_len", "return_text_in_logprobs"})
NAMES = SAMPLING_NAMES | REPORT_NAMES
CONSTRAINTS = ("regex", "json_schema", "ebnf", "choices", "dtype")
LISTS = ("stop", "stop_token_ids", "stop_regex", "choices")


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """Raises ProgramError for an option that there is not, and for a value that is none of it.

    A text that a program has may serve as a number.
    """
    check_names(options, SAMPLING_NAMES)
    given = given_of(options)
    if isinstance(given.get("logit_bias"), Mapping):
        given["logit_bias"] = {str(token_id): bias for token_id, bias in given["logit_bias"].items()}
    try:
        sampling = msgspec.convert(given, Sampling, strict=False)
    except msgspec.ValidationError as error:
        raise ProgramError(f"an option has a value that is none of it: {error}") from error
    for name in given:
        value = getattr(sampling, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ProgramError(f"{name}: {value} is no number to ask for")
    return sampling


def given_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not None, which is as if nothing was said. Raises ProgramError for what does not go together."""
    given = {name: value for name, value in options.items() if value is not None}
    constraints = [name for name in CONSTRAINTS if name in given]
    if len(constraints) > 1:
        raise ProgramError(f"{' and '.join(constraints)}: an output has one constraint at most")
    return given | {name: listed(given[name]) for name in LISTS if name in given}


def check_names(options: Iterable[str], names: Collection[str]) -> None:
    for option in options:
        if option not in names:
            near = difflib.get_close_matches(option, names, 1)
            raise ProgramError(f"there is no option {option}" + (f"; did you mean {near[0]}?" if near else ""))


def with_defaults(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What is given itself, and for the rest what holds for the whole program; its own constraint instead of that."""
    if any(name in own for name in CONSTRAINTS):
        defaults = {name: value for name, value in defaults.items() if name not in CONSTRAINTS}
    return {**defaults, **own}


def listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
