"""A model folder in Hugging Face format, turned into a prepared one: weights linked, the rest copied.

Knows which files such a folder has and what they say of special tokens. Knows nothing of the architecture.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from services.executor.model.special_tokens import SpecialTokens, end_token_ids
from shared.config import ConfigError
from shared.model_card import TOKENIZER_FILE

INDEX_FILE = "model.safetensors.index.json"


def take_config(source: Path, target: Path) -> None:
    if not (source / "config.json").exists():
        raise ConfigError(f"{source} has no config.json, so it is no model folder")
    shutil.copyfile(source / "config.json", target / "config.json")


def take_weights(source: Path, target: Path) -> None:
    """Link the safetensors files, all of an index or the single one."""
    names = ["model.safetensors"]
    if (source / INDEX_FILE).exists():
        shutil.copyfile(source / INDEX_FILE, target / INDEX_FILE)
        names = sorted(set(_read_json(source / INDEX_FILE)["weight_map"].values()))
    for name in names:
        if not (source / name).exists():
            raise ConfigError(_missing(source, name))
        (target / name).symlink_to(source / name)


def take_tokenizer(source: Path, target: Path) -> SpecialTokens:
    """Copy tokenizer.json and read what the folder says of its special tokens and its chat template."""
    if not (source / TOKENIZER_FILE).exists():
        raise ConfigError(f"{source} has no {TOKENIZER_FILE}; save the model's fast tokenizer there")
    shutil.copyfile(source / TOKENIZER_FILE, target / TOKENIZER_FILE)
    return _special_tokens(source, Tokenizer.from_file(str(source / TOKENIZER_FILE)))


def _special_tokens(source: Path, tokenizer: Tokenizer) -> SpecialTokens:
    settings = _read_json(source / "tokenizer_config.json")
    model = _read_json(source / "config.json")
    generation = _read_json(source / "generation_config.json")
    bos_token, eos_token = _token(settings, "bos_token"), _token(settings, "eos_token")
    bos_token_id = tokenizer.token_to_id(bos_token) if bos_token else model.get("bos_token_id")
    declared = [*_ids(model.get("eos_token_id")), *_ids(generation.get("eos_token_id"))]
    if eos_token and (eos_token_id := tokenizer.token_to_id(eos_token)) is not None:
        declared.append(eos_token_id)
    return SpecialTokens(
        bos_token_id=bos_token_id,
        bos_token=bos_token,
        add_bos=_adds_bos(settings, tokenizer, bos_token_id),
        eos_token=eos_token,
        eos_token_ids=end_token_ids(tokenizer, declared),
        chat_template=_chat_template(source, settings),
    )


def _adds_bos(settings: dict[str, Any], tokenizer: Tokenizer, bos_token_id: int | None) -> bool:
    """As declared, or else as the tokenizer's own post-processor does."""
    if bos_token_id is None:
        return False
    declared = settings.get("add_bos_token")
    return bool(declared) if declared is not None else tokenizer.encode("").ids[:1] == [bos_token_id]


def _chat_template(source: Path, settings: dict[str, Any]) -> str | None:
    """A file of its own, or an entry of tokenizer_config.json: one template, or several by name."""
    file = source / "chat_template.jinja"
    if file.exists():
        return file.read_text("utf-8")
    template: str | list[dict[str, str]] | None = settings.get("chat_template")
    if isinstance(template, list):
        return next((entry["template"] for entry in template if entry["name"] == "default"), None)
    return template


def _token(settings: dict[str, Any], key: str) -> str:
    """Plain, or as a serialised AddedToken, or absent."""
    value = settings.get(key) or ""
    return str(value["content"]) if isinstance(value, dict) else str(value)


def _ids(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _missing(source: Path, name: str) -> str:
    if any(source.glob("*.bin")):
        return f"{source} has only PyTorch .bin weights; convert them to safetensors"
    return f"{source} has no {name}"


def _read_json(path: Path) -> dict[str, Any]:
    """Empty if there is no such file. Raises ConfigError if it is no JSON object."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected an object")
    return content
