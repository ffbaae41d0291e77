"""The served model's own tokenizer."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from shared.config import ModelConfig
from shared.model_card import TOKENIZER_FILE, prepared_folder

from .author import Encode


def encoder(model_path: str = "bundled") -> Encode:
    """Raises FileNotFoundError if no server has prepared this model yet."""
    file = prepared_folder(ModelConfig(path=model_path)) / TOKENIZER_FILE
    if not Path(file).exists():
        raise FileNotFoundError(f"{file}: start a server with this model once, which prepares it")
    tokenizer = Tokenizer.from_file(str(file))

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode
