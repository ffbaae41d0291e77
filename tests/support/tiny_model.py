"""Tiny random models in Hugging Face format, for tests that need a model's shape and not its sense.

Knows the file layout of the supported architectures. Weights depend on the seed only, so two folders made alike are
equal bit for bit. No torch and no transformers here: a folder takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Architecture = Literal["llama", "qwen2", "qwen3", "mistral"]
ARCHITECTURES: tuple[Architecture, ...] = ("llama", "qwen2", "qwen3", "mistral")

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCAB_SIZE = 320
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_CLASS = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral"}
_TIED = {"llama": False, "qwen2": True, "qwen3": True, "mistral": False}
_CORPUS = (
    "the quick brown fox jumps over the lazy dog and then the other dog thinks about the answer",
    "there is nothing that the reader would rather know than where the thing is and what it is there for",
)


def make_tiny_model(
    folder: Path, architecture: Architecture = "llama", *, seed: int = 0, context_length: int = 1024, **changes: Any
) -> Path:
    """Write a model folder and return it. `changes` replace entries of config.json before the weights are made."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(architecture, context_length) | changes
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": [2, 0]})
    _write_json(folder / "tokenizer_config.json", _tokenizer_config())
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(dict(_weights(config, seed)), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def tiny_config(architecture: Architecture, context_length: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": [f"{_CLASS[architecture]}ForCausalLM"],
        "model_type": architecture,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": context_length,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": _TIED[architecture],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }
    if architecture == "qwen3":
        config["head_dim"] = 24  # not hidden_size / heads, as in the real line
    if architecture == "mistral":
        config["sliding_window"] = None
    return config


def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE over every byte, a few dozen merges and the three special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _weights(config: dict[str, Any], seed: int) -> Iterator[tuple[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    for name, shape in _shapes(config):
        noise = generator.standard_normal(shape, dtype=np.float32)
        if name.endswith("norm.weight"):
            yield name, 1 + 0.1 * noise
        elif name.endswith("bias"):
            yield name, 0.1 * noise
        else:
            yield name, noise / np.sqrt(shape[-1], dtype=np.float32)


def _shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        for name, width in (("q", queries), ("k", keys), ("v", keys)):
            yield prefix + f"self_attn.{name}_proj.weight", (width, hidden)
            if config["model_type"] == "qwen2" or config.get("attention_bias"):
                yield prefix + f"self_attn.{name}_proj.bias", (width,)
        if config["model_type"] == "qwen3":
            yield prefix + "self_attn.q_norm.weight", (head_dim,)
            yield prefix + "self_attn.k_norm.weight", (head_dim,)
        yield prefix + "self_attn.o_proj.weight", (hidden, queries)
        if config["model_type"] == "llama" and config.get("attention_bias"):
            yield prefix + "self_attn.o_proj.bias", (hidden,)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (inner, hidden)
        yield prefix + "mlp.up_proj.weight", (inner, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), "utf-8")
