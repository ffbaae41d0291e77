"""The bundled model as transformers reads it: what tokens and log-probabilities are held against.

transformers needs up to a minute to read a GGUF file, so what it read is kept in `~/.cache/sapwood/oracle` and read
back in about a second. Nothing of ours takes part in it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from shared.config import ModelConfig
from shared.model_card import source_path

CACHE = Path("~/.cache/sapwood/oracle").expanduser()


@cache
def oracle_model() -> PreTrainedModel:
    """The bundled model in float32, ready to be called; one for the whole process, so leave it as it is."""
    return _quietly(AutoModelForCausalLM.from_pretrained, _cached(), dtype=torch.float32).eval()


def _cached() -> Path:
    source = source_path(ModelConfig())
    facts = f"{source} {source.stat().st_size} {source.stat().st_mtime_ns} {transformers.__version__}"
    folder = CACHE / hashlib.sha256(facts.encode()).hexdigest()[:12]
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            building = Path(temporary) / "building"
            building.mkdir()
            _read(source, building)
            _publish(building, folder)
    return folder


def _read(source: Path, target: Path) -> None:
    model = _quietly(AutoModelForCausalLM.from_pretrained, source.parent, gguf_file=source.name, dtype=torch.float32)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    del model.config.quantization_config  # the weights are plain now
    model.config.to_json_file(target / "config.json")


def _quietly(load: Callable[..., PreTrainedModel], *arguments: Any, **options: Any) -> PreTrainedModel:
    """Warnings are errors in the tests; those of transformers are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(*arguments, **options)


def _publish(building: Path, folder: Path) -> None:
    """Whole, by one rename; another process may have been faster."""
    try:
        os.rename(building, folder)
    except OSError:
        if not folder.exists():
            raise
