"""llguidance: its tokenizer, its limits, and compiled grammars.

Knows the engine's traps: it raises nothing but panics, so every result is asked for an error; copies of a matcher share
a lexer, so an error in one can spoil all that come later, until the grammar is compiled anew. Does not know where
grammar texts come from, who uses the copies, or torch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=50_000,
    step_max_items=20_000,
    max_lexer_states=10_000,  # of all its matchers together
    max_grammar_size=100_000,
    verbose_errors=False,
)
_PLAIN = r'[^"\\\x00-\x1F\x7F]'
# Of the vocabulary: what a state takes as a whole need not be looked at token by token. The engine's own, and one more
# for strings that have few characters left.
SLICES = [r"[\x20\x0A\x0D\x09]+", *(f"{_PLAIN}{{1,{most}}}" for most in (10, 15, 30)), f"{_PLAIN}+"]
# Compiling recurses as deep as a grammar is, and a stack that overflows ends the process. So what has been compiled in
# the sandbox fits here.
SANDBOX_STACK_BYTES = 4 * 1024 * 1024
STACK_BYTES = 16 * 1024 * 1024
MESSAGE_CHARACTERS = 300
GRAMMAR_BYTES = 128 * 1024  # of a small compiled grammar, measured
BYTES_PER_CHARACTER = 64  # of its text, on top of that
LEXER_BYTES = 3 * 1024 * 1024  # the most that a lexer learns while it is used, measured
LIMIT_WORDS = ("too ", "Too many ", "limit", "fuel", "Current row has ")
PANICKED = "the engine cannot handle this constraint"


class TokenizerFailed(Exception):
    """The engine cannot read the model's tokenizer; there is nothing to constrain with."""


class GrammarFailed(Exception):
    """The grammar, or a matcher of it, is in an error state."""


class LimitReached(GrammarFailed):
    """It is over one of LIMITS."""


class DeadEnd(GrammarFailed):
    """Nothing may follow, and the output is not complete. The grammar is sound: others may go another way."""


def load_tokenizer(folder: Path, vocab_size: int, eos_token_ids: Sequence[int]) -> LLTokenizer:
    """Of a prepared model. Ids from the tokenizer's own vocabulary to `vocab_size` are never allowed.

    Raises TokenizerFailed.
    """
    try:
        settings = json.loads((folder / "tokenizer.json").read_bytes())
        text = json.dumps(_for_text(settings))
        return LLTokenizer(text, n_vocab=vocab_size, eos_token=list(eos_token_ids), slices=SLICES)
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise TokenizerFailed(str(error)) from error


def _for_text(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a tokenizer that only ever cuts up text: no text is a special token to it.

    The engine would take such a token's text in a grammar for the token, which may not follow: a dead end.
    """
    nonce = secrets.token_hex(8)
    names = {token["content"]: f"{nonce}-{token['id']}" for token in settings["added_tokens"] if token["special"]}
    added = [{**token, "content": names.get(token["content"], token["content"])} for token in settings["added_tokens"]]
    model, vocab = settings["model"], settings["model"]["vocab"]
    if isinstance(vocab, dict):
        renamed: Any = {names.get(text, text): token_id for text, token_id in vocab.items()}
    else:
        renamed = [[names.get(text, text), score] for text, score in vocab]
    plain = {"truncation": None, "padding": None, "post_processor": None}
    return {**settings, **plain, "added_tokens": added, "model": {**model, "vocab": renamed}}


def check(matcher: LLMatcher) -> None:
    """Raises GrammarFailed if the matcher is in an error state, with the engine's reason in a line."""
    if not matcher.is_error():
        return
    reason = _reason(matcher.get_error())
    if reason.startswith("NoExtensionBias"):
        raise DeadEnd("nothing that satisfies it can follow")
    if any(word in reason for word in LIMIT_WORDS):
        raise LimitReached(reason)
    raise GrammarFailed(reason)


@contextmanager
def guarded() -> Iterator[None]:
    """A panic in here is a failure of the grammar. (A Rust library's is no Exception.)"""
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as panic:
        raise GrammarFailed(PANICKED) from panic


def _reason(message: str) -> str:
    """The first line, and what a regex's parser adds; not the excerpts in between, nor where the engine panicked."""
    if message.startswith("panic:"):
        return PANICKED
    lines = [line.strip() for line in message.strip().splitlines()] or ["unknown error"]
    kept = lines[:1] + [line for line in lines[1:] if line.startswith("error:")]
    return " ".join(kept)[:MESSAGE_CHARACTERS]


class Grammar:
    """Compiled once; matchers are copies of a prototype that never consumes a token.

    Args:
        key: of the constraint, see `shared.constraints`.
        text: as llguidance takes it.

    Raises GrammarFailed if the text is not a grammar, or exceeds LIMITS.
    """

    __slots__ = ("_prototype", "_text", "_tokenizer", "generation", "key", "size_bytes")

    def __init__(self, key: str, text: str, tokenizer: LLTokenizer) -> None:
        self.key = key
        self.generation = 0  # counts how often it has been compiled anew
        self.size_bytes = GRAMMAR_BYTES + BYTES_PER_CHARACTER * len(text)
        self._text = text
        self._tokenizer = tokenizer
        self._prototype = self._compile()

    def _compile(self) -> LLMatcher:
        with guarded():
            matcher = LLMatcher(self._tokenizer, self._text, log_level=0, limits=LIMITS)
            check(matcher)
            return matcher

    def start(self) -> LLMatcher:
        """A matcher at the beginning; it shares its lexer with all of the same generation. Raises GrammarFailed."""
        with guarded():
            return self._prototype.deep_copy()

    def rebuild(self) -> None:
        """Compile anew, after a matcher has spoilt the lexer. Matchers of the earlier generation stay spoilt."""
        self._prototype = self._compile()
        self.generation += 1
