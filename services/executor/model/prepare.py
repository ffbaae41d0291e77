"""Makes the prepared folder of the configured model, once: `python -m services.executor.model.prepare --config FILE`.

The folder (see `shared/model_card.py`) is all that the services read of a model. It appears by one rename when it is
complete, so that nobody sees half of it and two processes that make it at once do no harm.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from services.executor.model import hugging_face
from services.executor.model.config import ModelShape, read_shape
from services.executor.model.special_tokens import SpecialTokens
from shared.config import ConfigError, ModelConfig, load
from shared.model_card import CARD_FILE, ModelCard, load_card, prepared_folder, source_path
from shared.service import die_with_parent

# the end of a GGUF file's name by convention, "Model-Q4_1.gguf": how it is stored, not what it is
QUANTIZATION = re.compile(r"[.-](I?Q\d\w*|B?F16|F32)$", re.IGNORECASE)


def prepare(config: ModelConfig) -> Path:
    """The prepared folder of the configured model, made if it is not there yet.

    Raises:
        ConfigError: there is no such model, or it is not one that can be served; the message says why.
    """
    folder = prepared_folder(config)
    if not folder.exists():
        _make(source_path(config), folder)
    load_card(config)  # raises if it does not suit the rest of the configuration
    return folder


def _make(source: Path, folder: Path) -> None:
    with _building(folder) as building:
        special = _from_folder(source, building) if source.is_dir() else _from_gguf(source, building)
        card = _card(source, read_shape(building), special)
        (building / CARD_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2))


def main() -> None:
    die_with_parent()  # the folder is for whoever started this
    parser = argparse.ArgumentParser(prog="prepare", description="Prepare the configured model and print its folder.")
    parser.add_argument("--config", type=Path, help="the configuration file (YAML)")
    arguments = parser.parse_args()
    try:
        folder = prepare(load(arguments.config).model)
    except ConfigError as error:
        sys.exit(f"sapwood: {error}")
    sys.stdout.write(f"{folder}\n")


def _from_folder(source: Path, building: Path) -> SpecialTokens:
    hugging_face.take_config(source, building)
    read_shape(building)  # refuses what cannot be served before anything else is asked of the folder
    hugging_face.take_weights(source, building)
    return hugging_face.take_tokenizer(source, building)


def _from_gguf(source: Path, building: Path) -> SpecialTokens:
    from services.executor.model import gguf_config, gguf_file, gguf_tokenizer, gguf_weights  # half a second to import

    file = gguf_file.GgufFile(source)
    config = gguf_config.config_of(file)
    (building / "config.json").write_text(json.dumps(config, indent=2), "utf-8")
    read_shape(building)
    special = gguf_tokenizer.write_tokenizer(file, building)
    gguf_weights.write_weights(file, config, building)
    return special


def _card(source: Path, shape: ModelShape, special: SpecialTokens) -> ModelCard:
    return ModelCard(
        model_id=source.name if source.is_dir() else QUANTIZATION.sub("", source.stem),
        architecture=shape.architecture,
        max_model_len=shape.max_position,
        vocab_size=shape.vocab_size,
        source=str(source),
        **msgspec.structs.asdict(special),
    )


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A folder that becomes `folder` if the block succeeds and nobody else was faster."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        building.chmod(0o755)
        yield building
        try:
            building.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


if __name__ == "__main__":
    main()
