"""The tokens that start and end a text: what a source must say of them, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from tokenizers import Tokenizer

# Chat models end a turn with one of these. A file may name only one of them as its end-of-sequence token, and a model
# that writes another goes on talking to itself.
END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>")


class SpecialTokens(msgspec.Struct, frozen=True, kw_only=True):
    bos_token_id: int | None
    bos_token: str  # "" if there is none; chat templates use it
    add_bos: bool  # put it in front of a plain prompt
    eos_token: str
    eos_token_ids: tuple[int, ...]
    chat_template: str | None


def end_token_ids(tokenizer: Tokenizer, declared: Iterable[int]) -> tuple[int, ...]:
    """The declared ids, and those of `END_TOKENS` that are special tokens of this tokenizer."""
    added = tokenizer.get_added_tokens_decoder()
    ends = {token_id for token_id, token in added.items() if token.special and token.content in END_TOKENS}
    return tuple(sorted(ends.union(declared)))
