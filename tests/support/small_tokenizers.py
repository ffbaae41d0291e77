"""Hand-made tokenizers of each line that models use: byte-level BPE, and SentencePiece in its three file forms.

They know every byte, so any bytes can be any tokens. Files and cards are written as a prepared folder has them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from shared.model_card import CARD_FILE, ModelCard
from tests.support.tiny_model import CHAT_TEMPLATE, tiny_tokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["▁", "▁▁", "▁the", "▁cat", "cat", "s", "é", "▁你", "好", "😀", "a", "b", "c", "t", "h", "e", "\n", ".", ","]
CONTROL = ["<unk>", "<s>", "</s>"]


def byte_level() -> Tokenizer:
    """As GPT-2, Llama 3, Qwen and SmolLM: a byte is a character of a printable alphabet."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<tool>", special=False), AddedToken("with a space", special=False)])
    return tokenizer


def byte_fallback() -> Tokenizer:
    """As Llama 2 and Mistral: a byte that no piece covers is a token <0x0A>."""
    tokenizer = _sentencepiece_bpe()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def metaspace() -> Tokenizer:
    """As T5: spaces are pieces, and the text's first one is taken off. No byte tokens."""
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - rank) for rank, piece in enumerate(CONTROL + PIECES)], 0))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    tokenizer.add_tokens([AddedToken("with a space", special=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def metaspace_without_prefix() -> Tokenizer:
    """As Gemma: nothing is put in front of a text, so nothing is taken off."""
    tokenizer = _sentencepiece_bpe()
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def unknown_decoder() -> Tokenizer:
    tokenizer = tiny_tokenizer()
    tokenizer.decoder = decoders.Replace(Regex("a+"), "b")
    return tokenizer


ALL: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": byte_level,
    "byte_fallback": byte_fallback,
    "metaspace": metaspace,
    "metaspace_without_prefix": metaspace_without_prefix,
}


def small_card(tokenizer: Tokenizer, **changes: object) -> ModelCard:
    card = ModelCard(
        model_id="small",
        architecture="llama",
        max_model_len=64,
        vocab_size=tokenizer.get_vocab_size() + 8,  # a model's output layer is often wider than its vocabulary
        eos_token_ids=(2,),
        bos_token_id=1,
        add_bos=False,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template=CHAT_TEMPLATE,
        source="tests",
    )
    return msgspec.structs.replace(card, **changes)


def write_folder(folder: Path, tokenizer: Tokenizer, card: ModelCard | None = None) -> Path:
    """What tokenizers and detokenizers read of a prepared folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / CARD_FILE).write_bytes(msgspec.json.encode(card or small_card(tokenizer)))
    return folder


def _sentencepiece_bpe() -> Tokenizer:
    pieces = CONTROL + BYTES + PIECES
    tokenizer = Tokenizer(
        models.BPE({piece: rank for rank, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    return tokenizer
