"""From a GGUF file's metadata to the content of a Hugging Face `config.json`."""

from __future__ import annotations

from typing import Any

from services.executor.model.config import ARCHITECTURES
from services.executor.model.gguf_file import GgufFile
from shared.config import ConfigError

_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def config_of(file: GgufFile) -> dict[str, Any]:
    """Raises ConfigError for an architecture or a variant that is not supported. Mistral's files call it llama."""
    if file.architecture not in _CLASSES:
        known = ", ".join(ARCHITECTURES)
        raise ConfigError(f"{file.path}: unsupported architecture {file.architecture!r}; supported are {known}")
    heads = file.require_model("attention.head_count")
    hidden_size = file.require_model("embedding_length")
    head_dim = file.model("attention.key_length", hidden_size // heads)
    _refuse_variants(file, head_dim)
    return {
        "architectures": [_CLASSES[file.architecture]],
        "model_type": file.architecture,
        "hidden_size": hidden_size,
        "intermediate_size": file.require_model("feed_forward_length"),
        "num_hidden_layers": file.require_model("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.model("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "vocab_size": len(file.require("tokenizer.ggml.tokens")),
        "max_position_embeddings": file.require_model("context_length"),
        "rope_theta": file.model("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(file),
        "rms_norm_eps": file.require_model("attention.layer_norm_rms_epsilon"),
        "hidden_act": "silu",
        "attention_bias": file.architecture == "llama" and "blk.0.attn_q.bias" in file,
        "tie_word_embeddings": "output.weight" not in file,
        "torch_dtype": "float32",
    }


def _refuse_variants(file: GgufFile, head_dim: int) -> None:
    if file.model("expert_count", 0) > 0:
        raise ConfigError(f"{file.path}: mixtures of experts are not supported")
    if file.model("rope.dimension_count", head_dim) != head_dim:
        raise ConfigError(f"{file.path}: rotary embedding of a part of each head is not supported")


def _rope_scaling(file: GgufFile) -> dict[str, Any] | None:
    if "rope_freqs.weight" in file:
        return {"rope_type": "divided", "divisors": file.tensor("rope_freqs.weight").tolist()}
    kind = file.model("rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        raise ConfigError(f"{file.path}: unsupported rope scaling {kind!r}")
    return {"rope_type": "linear", "factor": file.require_model("rope.scaling.factor")}
