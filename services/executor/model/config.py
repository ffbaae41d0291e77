"""A model's shape, read from the `config.json` of the Llama, Qwen2, Qwen3 and Mistral lines.

Knows which variants the forward pass computes rightly and refuses all others by name. Knows nothing of torch, of
weights or of the tokenizer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from shared.config import ConfigError

Architecture: TypeAlias = Literal["llama", "qwen2", "qwen3", "mistral"]
ARCHITECTURES: tuple[str, ...] = get_args(Architecture)


class LinearRope(msgspec.Struct, frozen=True, tag_field="rope_type", tag="linear"):
    """Every frequency divided by one factor."""

    factor: float


class Llama3Rope(msgspec.Struct, frozen=True, tag_field="rope_type", tag="llama3"):
    """Low frequencies divided, high ones kept, those between interpolated (Llama 3.1)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


class DividedRope(msgspec.Struct, frozen=True, tag_field="rope_type", tag="divided"):
    """Each frequency divided by a factor of its own: what a GGUF file stores as `rope_freqs.weight`."""

    divisors: tuple[float, ...]  # (head_dim / 2,)


RopeScaling: TypeAlias = LinearRope | Llama3Rope | DividedRope
_IMPLIED: dict[str, dict[str, Any]] = {"qwen3": {"head_dim": 128}, "mistral": {"sliding_window": 4096}}


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    architecture: Architecture
    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int  # tokens that one sequence may have; a sliding window limits it too
    rope_theta: float
    rope_scaling: RopeScaling | None
    rms_norm_eps: float
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool  # of the attention's output projection
    query_key_norm: bool


def read_shape(folder: Path) -> ModelShape:
    """Raises ConfigError if there is no readable config.json, or one of a model that the forward does not compute."""
    path = folder / "config.json"
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    try:
        return parse_shape(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: missing or unsupported value: {error}") from error


def parse_shape(content: dict[str, Any]) -> ModelShape:
    """The shape that a config.json's content describes."""
    architecture = content.get("model_type")
    if architecture not in ARCHITECTURES:
        raise ConfigError(f"unsupported architecture {architecture!r}; supported are {', '.join(ARCHITECTURES)}")
    rope = content.get("rope_parameters") or {}  # transformers 5 moved theta and scaling there
    content = _IMPLIED.get(architecture, {}) | content | rope
    _refuse_variants(content)
    heads = content["num_attention_heads"]
    bias = bool(content.get("attention_bias", False))
    shape = {
        "architecture": architecture,
        "layers": content["num_hidden_layers"],
        "hidden_size": content["hidden_size"],
        "intermediate_size": content["intermediate_size"],
        "heads": heads,
        "kv_heads": content.get("num_key_value_heads") or heads,
        "head_dim": content.get("head_dim") or content["hidden_size"] // heads,
        "vocab_size": content["vocab_size"],
        "max_position": min(content["max_position_embeddings"], _window(content)),
        "rope_theta": content.get("rope_theta", 10000.0),
        "rope_scaling": _rope_scaling(rope or content.get("rope_scaling") or {}),
        "rms_norm_eps": content.get("rms_norm_eps", 1e-6),
        "tied_embeddings": content.get("tie_word_embeddings", False),
        "qkv_bias": architecture == "qwen2" or bias,
        "output_bias": architecture != "qwen2" and bias,
        "query_key_norm": architecture == "qwen3",
    }
    return msgspec.convert(shape, ModelShape)


def _refuse_variants(content: dict[str, Any]) -> None:
    expected = {"hidden_act": "silu", "mlp_bias": False, "partial_rotary_factor": 1.0}
    for key, value in expected.items():
        if content.get(key, value) != value:
            raise ConfigError(f"unsupported {key} = {content[key]!r}")
    if "quantization_config" in content:
        raise ConfigError("quantized safetensors are not supported; use the unquantized model or a GGUF file")


def _window(content: dict[str, Any]) -> int:
    """Within one sliding window full attention is the same; longer sequences are refused through `max_position`."""
    window = content.get("sliding_window")
    used = content["model_type"] == "mistral" or content.get("use_sliding_window", False)
    return int(window) if window and used else int(content["max_position_embeddings"])


def _rope_scaling(content: dict[str, Any]) -> dict[str, Any] | None:
    kind = content.get("rope_type", content.get("type", "default"))
    return None if kind == "default" else content | {"rope_type": kind}
