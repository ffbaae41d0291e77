"""A process that takes strangers' sources first: translates, compiles and walks them, within limits that kill it.

    python -P -m services.executor.constraint.worker FOLDER

Jobs come through stdin, answers go through stdout, see `job`; at the end of stdin it exits. Knows one job at a time and
nothing of the executor. Must start fast: no torch, no numpy.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from llguidance import LLTokenizer

from services.executor.constraint.engine import (
    SANDBOX_STACK_BYTES,
    DeadEnd,
    Grammar,
    GrammarFailed,
    LimitReached,
    guarded,
    load_tokenizer,
)
from services.executor.constraint.job import (
    Answer,
    Broken,
    Done,
    Interrupted,
    Job,
    Ready,
    TooComplex,
    Wrong,
    decode_job,
    framed,
    out_of_memory,
    read_frame,
)
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.translate import translate
from services.executor.constraint.trial import TooSlow, walk_about
from shared.config import ModelConfig
from shared.model_card import load_card

NICE = 5  # steps go before
PLACE = re.compile(r"^(?:at )?([0-9]+)\(([0-9]+)\): ")  # in the engine's words
EXCERPT = re.compile(r" \(at \".*\)$", re.DOTALL)
FORCED = "ff_tokens"  # in the engine's words: tokens that follow without a choice
STATM = Path("/proc/self/statm")


def serve(folder: Path, jobs: BinaryIO, answers: BinaryIO) -> None:
    card = load_card(ModelConfig(prepared=str(folder)))
    tokenizer = load_tokenizer(folder, card.vocab_size, card.eos_token_ids)
    _say(answers, Ready(_memory()[1]))
    while (frame := read_frame(jobs)) is not None:
        _say(answers, answer(decode_job(frame), tokenizer))


def answer(job: Job, tokenizer: LLTokenizer) -> Answer:
    """Where the limits do not end the process before."""
    try:
        with _limits(job.caps.compile_cpu_s, job.caps.compile_memory_bytes):
            text = translate(job.constraint, job.caps)
            with guarded():
                _try(text, tokenizer)
        return Done(text, _memory()[1])
    except Refused as refused:
        return Wrong(refused.message, refused.path)
    except DeadEnd:
        return Wrong("no text satisfies the constraint")
    except LimitReached as reached:
        return TooComplex(_beyond_limits(str(reached)))
    except GrammarFailed as error:
        return Wrong(_in_plain_words(str(error)))
    except TooSlow as error:
        return Interrupted(f"the constraint is too complex: {error}")
    except MemoryError:
        return out_of_memory(job.caps)
    except RecursionError:
        return TooComplex("the constraint is too complex: it is nested too deeply")
    except BaseException as error:  # a panic of a Rust library is no Exception
        return Broken(f"{type(error).__name__}: {error}")


def _try(text: str, tokenizer: LLTokenizer) -> None:
    """Raises as `walk_about`. What is slow is slow twice: the machine may have been busy with something else."""
    try:
        walk_about(Grammar("", text, tokenizer), tokenizer)
    except TooSlow:
        walk_about(Grammar("", text, tokenizer), tokenizer)


def _beyond_limits(reason: str) -> str:
    if FORCED in reason:
        return "the constraint is too complex: it leaves no choice for too long, as where no output can ever end"
    return "the constraint is too complex for the server's limits"


def _in_plain_words(reason: str) -> str:
    """What the engine says of a text that is no grammar."""
    return PLACE.sub(r"line \1, column \2: ", EXCERPT.sub("", reason))


@contextlib.contextmanager
def _limits(cpu_s: float, memory_bytes: int) -> Iterator[None]:
    """Of this job: a signal that nobody handles ends it after so much CPU time, and memory cannot be had beyond."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    virtual_bytes = _memory()[0]
    if virtual_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (virtual_bytes + memory_bytes, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _memory() -> tuple[int, int]:
    """Virtual and resident bytes; zeros where the system does not say."""
    try:
        pages = STATM.read_text().split()[:2]
    except OSError:
        return 0, 0
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def _say(answers: BinaryIO, message: Ready | Answer) -> None:
    answers.write(framed(message))
    answers.flush()


def main() -> None:
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_STACK, (SANDBOX_STACK_BYTES, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever else is printed is not an answer
        serve(Path(sys.argv[1]), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
