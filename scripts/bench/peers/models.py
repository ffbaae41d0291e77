"""The served weights in the forms that peers read, made once from what the project serves itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from services.executor.model.stored import Stored, StoredKind
from shared.config import ModelConfig
from shared.model_card import load_card, prepared_folder, source_path

from .install import CACHE

QUANTIZED = gguf.GGMLQuantizationType.Q8_0
PLAIN = gguf.GGMLQuantizationType.F32


def bundled() -> Path:
    return source_path(ModelConfig(path="bundled"))


def q8_0() -> Path:
    """The bundled file with all its matrices in Q8_0."""
    source = bundled()
    target = CACHE / "models" / f"{source.stem}.to-Q8_0.gguf"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        _requantize(source, partial)
        partial.rename(target)
    return target


def hugging_face() -> Path:
    """The prepared folder, all weights in float32, with the tokenizer's settings that other loaders ask for."""
    config = ModelConfig(path="bundled")
    source, card = prepared_folder(config), load_card(config)
    target = CACHE / "models" / f"{source.name}.float32"
    if not (target / "tokenizer_config.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "tokenizer.json"):
            shutil.copyfile(source / name, target / name)
        save_file(_float32_weights(source), target / "model.safetensors", metadata={"format": "pt"})
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": card.max_model_len}
        tokens = {"bos_token": card.bos_token, "eos_token": card.eos_token}
        (target / "tokenizer_config.json").write_text(json.dumps(settings | tokens))
    return target


WEIGHTS: dict[str, Callable[[], Path]] = {"bundled": bundled, "q8_0": q8_0, "hugging_face": hugging_face}


def _float32_weights(source: Path) -> dict[str, Tensor]:
    """Of a prepared folder, in which a matrix may be kept in its GGUF file's groups."""
    weights: dict[str, Tensor] = {}
    for path in sorted(source.glob("model*.safetensors")):
        with safe_open(path, framework="pt") as file:
            kinds = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (not a dict)
                tensor = file.get_tensor(name)
                if name in kinds:
                    tensor = torch.from_numpy(Stored(StoredKind(kinds[name]), tensor.numpy()).dequantised())
                weights[name] = tensor.to(torch.float32).contiguous()
    return weights


def _requantize(source: Path, target: Path) -> None:
    reader = gguf.GGUFReader(source)
    architecture = str(reader.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(target, architecture)
    _copy_metadata(reader, writer)
    for tensor in reader.tensors:
        kind = PLAIN if len(tensor.shape) == 1 else QUANTIZED
        data = tensor.data
        if tensor.tensor_type != kind:
            data = gguf.quants.quantize(gguf.quants.dequantize(data, tensor.tensor_type), kind)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
