"""Text to token ids and back, by the model's `tokenizer.json`.

Knows the `tokenizers` library. Does not know requests or limits. Calls release the interpreter while they work, so a
long text does not stop the event loop when encoded in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from services.tokenizer.own_tokens import Piece
from shared.config import ConfigError
from shared.model_card import TOKENIZER_FILE, ModelCard

Ids = tuple[int, ...]


class NotText(Exception):
    """The string has no token ids; the text says why, for the client."""


class Codec:
    """One thread at a time.

    `longest_token_chars`: no token stands for more characters of text, so that n characters are at least
    n / longest_token_chars tokens (a normaliser that shortens text is not allowed for).
    """

    def __init__(self, tokenizer: Tokenizer, card: ModelCard) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._bos = (card.bos_token_id,) if card.add_bos and card.bos_token_id is not None else ()
        special = {i: token.content for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self._special_ids = frozenset(special)
        self.special_tokens = frozenset(special.values())
        self.longest_token_chars = max(map(len, tokenizer.get_vocab()), default=1)
        self._newline = self._encode("\n")

    @classmethod
    def load(cls, folder: Path, card: ModelCard) -> Codec:
        """Raises ConfigError if the prepared folder's tokenizer cannot be read."""
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        except Exception as error:  # the library raises no narrower class
            raise ConfigError(f"{folder / TOKENIZER_FILE}: {error}") from error
        return cls(tokenizer, card)

    def encode_prompt(self, text: str) -> Ids:
        """A plain prompt. Special tokens in it are taken as such: who sends a plain prompt writes the format himself.

        The beginning-of-sequence token is put in front if the model wants it and the text does not begin with it.
        """
        ids = self._encode(text)
        return ids if ids[: len(self._bos)] == self._bos else self._bos + ids

    def encode_bare(self, text: str) -> Ids:
        """The same without a beginning-of-sequence token."""
        return self._encode(text)

    def encode_pieces(self, pieces: Sequence[Piece]) -> Ids:
        """A rendered conversation. Literal pieces never give special tokens."""
        ids: list[int] = []
        for piece in pieces:
            encode = self._encode_literal if piece.literal else self._encode
            ids.extend(self._encode_inner(encode, piece.text) if ids else encode(piece.text))
        return tuple(ids)

    def tokens(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """As the vocabulary writes them; empty where it has none of this number."""
        return tuple(self._tokenizer.id_to_token(token_id) or "" for token_id in token_ids)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text

    def _encode(self, text: str) -> Ids:
        try:
            # Unlike `encode`, this one releases the interpreter; and it keeps no offsets, which takes half the time.
            [encoding] = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except TypeError as error:  # the library's word for a str that is not valid Unicode
            raise NotText("the text holds a lone surrogate, which is not valid Unicode") from error
        return tuple(encoding.ids)

    def _encode_literal(self, text: str) -> Ids:
        self._tokenizer.encode_special_tokens = True  # the library's name for: special tokens are text
        try:
            ids = self._encode(text)
        finally:
            self._tokenizer.encode_special_tokens = False
        if not self._special_ids.isdisjoint(ids):
            raise NotText(f"{text!r} cannot stand as plain text in this model's messages")
        return ids

    def _encode_inner(self, encode: Callable[[str], Ids], text: str) -> Ids:
        """Text that does not begin the string: encoded behind a newline, or a tokenizer may add a space in front."""
        ids = encode("\n" + text)
        start = len(self._newline)
        return ids[start:] if ids[:start] == self._newline else encode(text)
