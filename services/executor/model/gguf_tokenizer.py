"""From a GGUF file's vocabulary to a `tokenizer.json`.

Knows how each `tokenizer.ggml.pre` splits text before byte-level BPE; a wrong split still gives readable text and wrong
tokens, so an unknown name is refused. The patterns are those of the models' own tokenizer.json files, which llama.cpp's
`llama-vocab.cpp` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from services.executor.model.gguf_file import GgufFile
from services.executor.model.special_tokens import SpecialTokens, end_token_ids
from shared.config import ConfigError
from shared.model_card import TOKENIZER_FILE

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Splitting:
    """What happens to text before byte-pair merges."""

    pattern: str | None = None  # None: GPT-2's, which ByteLevel has built in
    single_digits: bool = False  # digits one by one, before everything else
    whole_words: bool = False  # a piece that is a token is taken whole, whatever the merges say
    compose: bool = False  # Unicode NFC first
    starts_with_bos: bool = False  # unless the file says otherwise


_GPT2 = Splitting()
_DIGITS = Splitting(single_digits=True)
_LLAMA3_BPE = Splitting(_LLAMA3, whole_words=True, starts_with_bos=True)
SPLITTINGS = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "olmo": _GPT2,
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "llama-bpe": _LLAMA3_BPE,
    "llama3": _LLAMA3_BPE,
    "llama-v3": _LLAMA3_BPE,
    "smaug-bpe": Splitting(_LLAMA3),
    "qwen2": Splitting(_QWEN2, compose=True),
    "deepseek-r1-qwen": Splitting(_QWEN2, compose=True),
    "tekken": Splitting(_TEKKEN, whole_words=True, starts_with_bos=True),
}


def write_tokenizer(file: GgufFile, folder: Path) -> SpecialTokens:
    """Write `tokenizer.json` and say what the file says of its special tokens and its chat template."""
    tokenizer = build_tokenizer(file)
    tokenizer.save(str(folder / TOKENIZER_FILE))
    bos_token_id: int | None = file.get("tokenizer.ggml.bos_token_id", None)
    eos_token_id: int = file.require("tokenizer.ggml.eos_token_id")
    return SpecialTokens(
        bos_token_id=bos_token_id,
        bos_token="" if bos_token_id is None else tokenizer.id_to_token(bos_token_id) or "",
        add_bos=bos_token_id is not None
        and file.get("tokenizer.ggml.add_bos_token", splitting_of(file).starts_with_bos),
        eos_token=tokenizer.id_to_token(eos_token_id) or "",
        eos_token_ids=end_token_ids(tokenizer, [eos_token_id]),
        chat_template=file.get("tokenizer.chat_template", None),
    )


def splitting_of(file: GgufFile) -> Splitting:
    """Raises ConfigError for a vocabulary that is not byte-level BPE, or an unknown way of splitting."""
    kind = file.require("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ConfigError(
            f"{file.path}: tokenizer.ggml.model {kind!r} is not supported, only byte-level BPE ('gpt2') is; "
            "use the model's folder in Hugging Face format"
        )
    name = file.get("tokenizer.ggml.pre", "default")
    if name not in SPLITTINGS:
        raise ConfigError(f"{file.path}: unknown tokenizer.ggml.pre {name!r}; known are {', '.join(SPLITTINGS)}")
    return SPLITTINGS[name]


def build_tokenizer(file: GgufFile) -> Tokenizer:
    splitting = splitting_of(file)
    tokens: list[str] = file.require("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in file.require("tokenizer.ggml.merges")]
    types: list[int] = file.get("tokenizer.ggml.token_type", [TokenType.NORMAL] * len(tokens))
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=merges,
            ignore_merges=splitting.whole_words,
        )
    )
    if splitting.compose:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(list(_pre_tokenizers(splitting)))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_whole(token) for token in _of_type(tokens, types, TokenType.CONTROL)])
    tokenizer.add_tokens([_whole(token, special=False) for token in _of_type(tokens, types, TokenType.USER_DEFINED)])
    return tokenizer


def _pre_tokenizers(splitting: Splitting) -> Iterator[pre_tokenizers.PreTokenizer]:
    if splitting.single_digits:
        yield pre_tokenizers.Digits(individual_digits=True)
    if splitting.pattern is not None:
        yield pre_tokenizers.Split(Regex(splitting.pattern), behavior="isolated")
    yield pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=splitting.pattern is None)


def _of_type(tokens: list[str], types: list[int], wanted: TokenType) -> Iterator[str]:
    return (token for token, token_type in zip(tokens, types, strict=True) if token_type == wanted)


def _whole(token: str, *, special: bool = True) -> AddedToken:
    """A token that no split or merge takes apart."""
    return AddedToken(token, normalized=False, special=special)
