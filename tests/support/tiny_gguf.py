"""Tiny GGUF files, made from a tiny model folder as llama.cpp's converter makes them from a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.support.tiny_model import CHAT_TEMPLATE, SPECIAL_TOKENS

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def make_tiny_gguf(
    path: Path,
    folder: Path,
    *,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write `folder`'s model as a GGUF file.

    Args:
        quantization: of the matrices; vectors stay as they are.
        metadata: keys to set beside or instead of the usual ones; None leaves one out.
        tensors: further tensors.
    """
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, config["model_type"])
    for key, value in (_metadata(folder, config) | (metadata or {})).items():
        if value is not None:
            _add(writer, key, value)
    for name, values in load_file(folder / "model.safetensors").items():
        _add_tensor(writer, _name(name), _permuted(name, values, config), quantization)
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    architecture = config["model_type"]
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = [tokenizer.id_to_token(token_id) for token_id in range(config["vocab_size"])]
    return {
        f"{architecture}.block_count": config["num_hidden_layers"],
        f"{architecture}.context_length": config["max_position_embeddings"],
        f"{architecture}.embedding_length": config["hidden_size"],
        f"{architecture}.feed_forward_length": config["intermediate_size"],
        f"{architecture}.attention.head_count": config["num_attention_heads"],
        f"{architecture}.attention.head_count_kv": config["num_key_value_heads"],
        f"{architecture}.attention.key_length": config.get("head_dim"),
        f"{architecture}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{architecture}.rope.freq_base": config["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL_TOKENS else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in vocabulary["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, values: np.ndarray, quantization: gguf.GGMLQuantizationType
) -> None:
    if values.ndim == 1 or quantization == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)


def _name(name: str) -> str:
    module, kind = name.rsplit(".", 1)
    if module.startswith("model.layers."):
        _, _, layer, module = module.split(".", 3)
        return f"blk.{layer}.{_NAMES[module]}.{kind}"
    return f"{_NAMES[module]}.{kind}"


def _permuted(name: str, values: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """llama files pair the real and imaginary rows of rotary embedding (convert_hf_to_gguf.py, `permute`)."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2])
    if config["model_type"] != "llama" or heads is None:
        return values
    rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(values.shape)
