"""The options of a generation on the command line, into a request's `Sampling`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sapwood.backends.protocol import Sampling

NAMES = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "regex", "json_schema", "ebnf", "choices")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-tokens", type=int, help="of an answer, at most")
    parser.add_argument("--temperature", type=float, help="0: always the likeliest token")
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--min-p", type=float)
    parser.add_argument("--seed", type=int, help="the same seed, the same answer")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends the answer; several times")


def add_constraints(parser: argparse.ArgumentParser) -> None:
    constraint = parser.add_mutually_exclusive_group()
    constraint.add_argument("--regex", metavar="PATTERN", help="what the answer matches")
    constraint.add_argument("--json-schema", type=_text, metavar="FILE", help="what the answer is an instance of")
    constraint.add_argument("--ebnf", type=_text, metavar="FILE", help="a grammar that the answer is of")
    constraint.add_argument("--choices", nargs="+", metavar="TEXT", help="one of which the answer is")


def sampling(arguments: argparse.Namespace, samples: int = 1) -> Sampling:
    given = {name: value for name in NAMES if (value := getattr(arguments, name, None)) is not None}
    if "choices" in given:
        given["choices"] = tuple(given["choices"])
    return Sampling(**given, stop=tuple(arguments.stop), n=samples)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error
