"""From a GGUF file's tensors to float32 safetensors under Hugging Face's names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from services.executor.model.gguf_file import GgufFile
from shared.config import ConfigError

Array = NDArray[np.float32]

MAX_SHARD_BYTES = 2 * 1024**3  # what the conversion holds in memory at a time

_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_ELSEWHERE = {"rope_freqs.weight"}  # becomes a part of config.json


def write_weights(file: GgufFile, config: dict[str, Any], folder: Path) -> None:
    """Write `model.safetensors`, or several files and an index when one would be large."""
    shards: list[Path] = []
    placed: dict[str, Path] = {}
    for tensors in _shards(_tensors(file, config)):
        path = folder / f"model-{len(shards) + 1:05d}.safetensors"
        save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)  # the library writes for the owner alone; services may run as another user
        shards.append(path)
        placed |= dict.fromkeys(tensors, path)
    if len(shards) == 1:
        shards[0].rename(folder / "model.safetensors")
        return
    index = {"metadata": {}, "weight_map": {name: path.name for name, path in placed.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def hugging_face_name(name: str) -> str | None:
    """None for a tensor that no forward pass knows."""
    match = _BLOCK.fullmatch(name)
    if match is None:
        return _NAMES.get(name)
    layer, module, kind = match.groups()
    return f"model.layers.{layer}.{_BLOCK_NAMES[module]}.{kind}" if module in _BLOCK_NAMES else None


def unpermuted(rows: Array, heads: int) -> Array:
    """Undo the reordering of q and k rows in llama files.

    There a head's rows are the pairs of rotary embedding, real and imaginary parts alternating; Hugging Face's models
    have all real parts first. (permute in llama.cpp's convert_hf_to_gguf.py, backwards)
    """
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _tensors(file: GgufFile, config: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    permuted_heads = {}
    if file.architecture == "llama":
        permuted_heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name in file.tensor_names():
        if name in _ELSEWHERE:
            continue
        wanted = hugging_face_name(name)
        if wanted is None:
            raise ConfigError(f"{file.path}: unknown tensor {name}")
        values = file.tensor(name)
        heads = permuted_heads.get(wanted.split(".")[-2])
        yield wanted, values if heads is None else unpermuted(values, heads)


def _shards(tensors: Iterator[tuple[str, Array]]) -> Iterator[dict[str, Array]]:
    shard: dict[str, Array] = {}
    size = 0
    for name, values in tensors:
        if shard and size + values.nbytes > MAX_SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = values
        size += values.nbytes
    yield shard
