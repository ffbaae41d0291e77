"""The bytes that each token id stands for, read from a model's `tokenizer.json`.

Knows that file's vocabulary, added tokens and decoder; does not need the tokenizer itself, which keeps the process
small. A token's bytes may be a part of a character. Decoders of two lines are known: byte-level BPE, and SentencePiece
with its "▁" for a space and its "<0x0A>" for a byte. What they do to the text as a whole (the space that SentencePiece
puts in front of a text, and takes away again) is left to `incremental`.

Concatenated bytes decode to what `tokenizers` decodes. One difference is meant: where a run of SentencePiece byte
tokens is not valid UTF-8, that library replaces the whole run, valid characters in it included; here only the invalid
bytes are replaced, since a stream cannot take a character back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from shared.config import ConfigError
from shared.model_card import TOKENIZER_FILE

_Transform = Callable[[str | bytes], str | bytes]  # a token is text until a step turns it into bytes


class _AddedToken(msgspec.Struct):
    id: int
    content: str
    special: bool = False


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[tuple[str, float]]  # by id, or in the order of ids


class _TokenizerFile(msgspec.Struct):
    model: _Model
    added_tokens: list[_AddedToken]
    decoder: dict[str, Any] | None = None


@dataclass(frozen=True)
class Vocabulary:
    token_bytes: Sequence[bytes]  # by token id; b"" where there is no token
    special_ids: frozenset[int] = frozenset()
    added_ids: frozenset[int] = frozenset()
    leading_spaces: int = 0  # so many spaces are taken off the front of a text
    bare_first_token: bool = False  # the first token of a text loses its spaces

    def bytes_of(self, token_id: int) -> bytes:
        """A model's output layer may be wider than its vocabulary: no bytes there."""
        return self.token_bytes[token_id] if token_id < len(self.token_bytes) else b""


def load_vocabulary(folder: Path) -> Vocabulary:
    """Raises ConfigError if the tokenizer cannot be read or decodes in a way that is not known here."""
    path = folder / TOKENIZER_FILE
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_TokenizerFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return _vocabulary(content)


def _vocabulary(content: _TokenizerFile) -> Vocabulary:
    steps = _steps(content.decoder)
    transforms = [_transform(step) for step in steps]
    texts = _texts(content)
    token_bytes = [b""] * (max(texts, default=-1) + 1)
    for token_id, text in texts.items():
        token_bytes[token_id] = _apply(transforms, text)
    return Vocabulary(
        token_bytes,
        special_ids=frozenset(token.id for token in content.added_tokens if token.special),
        added_ids=frozenset(token.id for token in content.added_tokens),
        leading_spaces=sum(_leading_spaces(step) for step in steps),
        bare_first_token=any(step["type"] == "Metaspace" and _prepends(step) for step in steps),
    )


def _texts(content: _TokenizerFile) -> dict[int, str]:
    vocab = content.model.vocab
    if isinstance(vocab, dict):
        texts = {token_id: text for text, token_id in vocab.items()}
    else:
        texts = {token_id: text for token_id, (text, _) in enumerate(vocab)}
    return texts | {token.id: token.content for token in content.added_tokens}


def _apply(transforms: list[_Transform], text: str) -> bytes:
    token: str | bytes = text
    for transform in transforms:
        token = transform(token)
    return token.encode() if isinstance(token, str) else token


# --- decoders --------------------------------------------------------------------------------------------------------


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        raise ConfigError("this model's tokenizer names no decoder")
    if decoder["type"] == "Sequence":
        return [step for part in decoder["decoders"] for step in _steps(part)]
    return [decoder]


def _transform(step: dict[str, Any]) -> _Transform:
    """What a decoding step does to one token."""
    match step:
        case {"type": "ByteLevel"}:
            return _text_only(_from_byte_level)
        case {"type": "ByteFallback"}:
            return _text_only(_from_byte_token)
        case {"type": "Metaspace", "replacement": str(mark)}:
            return _text_only(lambda token: token.replace(mark, " "))
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            return _text_only(lambda token: token.replace(pattern, content))
        case {"type": "Fuse"} | {"type": "Strip", "content": " ", "stop": 0}:
            return lambda token: token
        case _:
            raise ConfigError(f"this model's tokenizer decodes in a way that is not known here: {step}")


def _text_only(transform: Callable[[str], str | bytes]) -> _Transform:
    return lambda token: transform(token) if isinstance(token, str) else token


def _leading_spaces(step: dict[str, Any]) -> int:
    return int(step["start"]) if step["type"] == "Strip" else 0


def _prepends(metaspace: dict[str, Any]) -> bool:
    if "prepend_scheme" in metaspace:
        return bool(metaspace["prepend_scheme"] != "never")
    return bool(metaspace.get("add_prefix_space", True))  # how older files say it


def _byte_level_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_LEVEL = _byte_level_alphabet()


def _from_byte_level(token: str) -> str | bytes:
    """A token with a character outside the alphabet stands for itself."""
    try:
        return bytes([_BYTE_LEVEL[char] for char in token])
    except KeyError:
        return token


def _from_byte_token(token: str) -> str | bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes.fromhex(token[3:5])
        except ValueError:
            pass
    return token
