import pytest
import torch
from safetensors.torch import load_file, save_file

from services.executor.model.config import read_shape
from services.executor.model.weights import load_weights
from shared.config import ConfigError
from tests.support.tiny_model import ARCHITECTURES, make_tiny_model

CPU = torch.device("cpu")


class Doubled:
    """A linear layer that takes twice the room."""

    def __init__(self, weight, bias):
        self.weight = weight.clone()
        self.num_bytes = 2 * (weight.nbytes + (0 if bias is None else bias.nbytes))


def load(folder, dtype=torch.float32):
    return load_weights(folder, read_shape(folder), CPU, dtype)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_projections_with_one_input_are_fused(tmp_path, architecture):
    folder = make_tiny_model(tmp_path, architecture)
    stored, weights = load_file(folder / "model.safetensors"), load(folder)
    prefix = "model.layers.1."
    layer = weights.layers[1]
    fused = [stored[f"{prefix}self_attn.{name}_proj.weight"] for name in "qkv"]
    assert torch.equal(layer.qkv.weight, torch.cat(fused))
    assert torch.equal(layer.gate_up.weight[:112], stored[prefix + "mlp.gate_proj.weight"])
    assert torch.equal(layer.gate_up.weight[112:], stored[prefix + "mlp.up_proj.weight"])
    assert (layer.qkv.bias is not None) == (architecture == "qwen2")
    assert (layer.query_norm is not None) == (layer.key_norm is not None) == (architecture == "qwen3")


def test_a_tied_head_is_the_embedding_and_counts_once(tmp_path):
    tied = load(make_tiny_model(tmp_path / "tied", "llama", tie_word_embeddings=True))
    untied = load(make_tiny_model(tmp_path / "untied", "llama"))
    assert tied.head.weight is tied.embedding
    assert untied.num_bytes - tied.num_bytes == untied.embedding.nbytes


def test_half_precision_takes_half_the_memory(tmp_path):
    folder = make_tiny_model(tmp_path)
    half = load(folder, torch.bfloat16)
    assert half.embedding.dtype == torch.bfloat16
    assert half.num_bytes * 2 == load(folder).num_bytes


def test_a_packed_head_is_a_copy_of_the_embedding(tmp_path):
    folder = make_tiny_model(tmp_path, "llama", tie_word_embeddings=True)
    plain = load(folder)
    packed = load_weights(folder, read_shape(folder), CPU, torch.float32, Doubled)
    assert packed.head.weight is not packed.embedding
    matrices = [linear for layer in plain.layers for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)]
    doubled = sum(linear.num_bytes for linear in matrices) + 2 * plain.embedding.nbytes
    assert packed.num_bytes - plain.num_bytes == doubled


def test_reads_weights_that_lie_in_several_files(tmp_path):
    whole, parts = make_tiny_model(tmp_path / "whole"), make_tiny_model(tmp_path / "parts")
    stored = load_file(parts / "model.safetensors")
    (parts / "model.safetensors").unlink()
    names = sorted(stored)
    for number, part in enumerate((names[:7], names[7:]), start=1):
        save_file({name: stored[name] for name in part}, parts / f"model-{number:05d}-of-00002.safetensors")
    expected, found = load(whole), load(parts)
    assert torch.equal(found.layers[1].down.weight, expected.layers[1].down.weight)
    assert found.num_bytes == expected.num_bytes


def test_a_missing_tensor_is_named(tmp_path):
    folder = make_tiny_model(tmp_path)
    stored = load_file(folder / "model.safetensors")
    del stored["model.layers.1.mlp.up_proj.weight"]
    save_file(stored, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"no tensor 'model\.layers\.1\.mlp\.up_proj\.weight'"):
        load(folder)
