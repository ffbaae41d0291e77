"""From a GGUF file's tensors to safetensors under Hugging Face's names.

Matrices of the kinds that `stored.py` knows keep their form: floats as such, groups as bytes (outputs, bytes of a row),
their kind by the tensor's name in the file's metadata. Everything else becomes float32.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from services.executor.model.gguf_file import GgufFile
from services.executor.model.stored import StoredKind
from shared.config import ConfigError

Array: TypeAlias = NDArray[Any]

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
_PLAIN = {StoredKind.F32, StoredKind.F16}  # numpy knows these


@dataclass(frozen=True, slots=True, eq=False)
class _Tensor:
    name: str
    values: Array
    kind: StoredKind | None = None  # of a matrix that is kept as bytes


def write_weights(file: GgufFile, config: dict[str, Any], folder: Path) -> None:
    """Write `model.safetensors`, or several files and an index when one would be large."""
    shards: list[Path] = []
    placed: dict[str, str] = {}
    for tensors in _shards(_tensors(file, config)):
        path = folder / f"model-{len(shards) + 1:05d}.safetensors"
        kinds = {tensor.name: str(tensor.kind) for tensor in tensors if tensor.kind is not None}
        save_file({tensor.name: tensor.values for tensor in tensors}, path, metadata={"format": "pt", **kinds})
        path.chmod(0o644)  # the library writes for the owner alone; services may run as another user
        shards.append(path)
        placed |= {tensor.name: path.name for tensor in tensors}
    if len(shards) == 1:
        shards[0].rename(folder / "model.safetensors")
        return
    index = {"metadata": {}, "weight_map": placed}
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


def _tensors(file: GgufFile, config: dict[str, Any]) -> Iterator[_Tensor]:
    permuted_heads = {}
    if file.architecture == "llama":
        permuted_heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name in file.tensor_names():
        if name in _ELSEWHERE:
            continue
        wanted = hugging_face_name(name)
        if wanted is None:
            raise ConfigError(f"{file.path}: unknown tensor {name}")
        tensor = _kept(file, name, wanted)
        heads = permuted_heads.get(wanted.split(".")[-2])
        yield tensor if heads is None else replace(tensor, values=unpermuted(tensor.values, heads))


def _kept(file: GgufFile, name: str, wanted: str) -> _Tensor:
    matrix = file.stored(name)
    if matrix is None:
        return _Tensor(wanted, file.tensor(name))
    if matrix.kind in _PLAIN:
        return _Tensor(wanted, matrix.elements())
    return _Tensor(wanted, matrix.raw, matrix.kind)


def _shards(tensors: Iterator[_Tensor]) -> Iterator[list[_Tensor]]:
    shard: list[_Tensor] = []
    size = 0
    for tensor in tensors:
        if shard and size + tensor.values.nbytes > MAX_SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append(tensor)
        size += tensor.values.nbytes
    yield shard
