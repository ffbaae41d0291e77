import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from services.executor.model.config import read_shape
from services.executor.model.stored_weights import load_stored
from shared.config import ConfigError
from tests.support.tiny_model import ARCHITECTURES, make_tiny_model


def load(folder):
    return load_stored(folder, read_shape(folder))


def all_of(linear):
    return np.concatenate([matrix.dequantised() for matrix in linear.matrices])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_weight_is_where_it_belongs(tmp_path, architecture):
    folder = make_tiny_model(tmp_path, architecture)
    tensors, weights = load_file(folder / "model.safetensors"), load(folder)
    layer, prefix = weights.layers[1], "model.layers.1."

    def stacked(*names, kind="weight"):
        return np.concatenate([tensors.pop(f"{prefix}{name}.{kind}") for name in names])

    projections = [f"self_attn.{name}_proj" for name in "qkv"]
    np.testing.assert_array_equal(all_of(layer.qkv), stacked(*projections))
    np.testing.assert_array_equal(all_of(layer.output), stacked("self_attn.o_proj"))
    np.testing.assert_array_equal(all_of(layer.gate_up), stacked("mlp.gate_proj", "mlp.up_proj"))
    np.testing.assert_array_equal(all_of(layer.down), stacked("mlp.down_proj"))
    np.testing.assert_array_equal(layer.input_norm, stacked("input_layernorm"))
    np.testing.assert_array_equal(layer.post_attention_norm, stacked("post_attention_layernorm"))
    if architecture == "qwen2":
        np.testing.assert_array_equal(layer.qkv.bias, stacked(*projections, kind="bias"))
    if architecture == "qwen3":
        np.testing.assert_array_equal(layer.query_norm, stacked("self_attn.q_norm"))
        np.testing.assert_array_equal(layer.key_norm, stacked("self_attn.k_norm"))
    assert not [name for name in tensors if name.startswith(prefix)], "left over"
    np.testing.assert_array_equal(weights.embedding.dequantised(), tensors["model.embed_tokens.weight"])
    np.testing.assert_array_equal(weights.norm, tensors["model.norm.weight"])


def test_a_tied_head_is_the_embedding(tmp_path):
    tied = load(make_tiny_model(tmp_path / "tied", tie_word_embeddings=True))
    assert tied.head.matrices == (tied.embedding,)
    untied = make_tiny_model(tmp_path / "untied")
    head = load_file(untied / "model.safetensors")["lm_head.weight"]
    np.testing.assert_array_equal(all_of(load(untied).head), head)


def test_biases_are_read_where_the_model_has_them(tmp_path):
    folder = make_tiny_model(tmp_path, attention_bias=True)
    layer, tensors = load(folder).layers[0], load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(layer.output.bias, tensors["model.layers.0.self_attn.o_proj.bias"])
    assert layer.gate_up.bias is layer.down.bias is None


@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"]
)
def test_a_shape_that_is_not_the_models_is_refused(tmp_path, name):
    folder = make_tiny_model(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = np.ascontiguousarray(tensors[name][:-1])
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=f"'{name}' does not have the shape"):
        load(folder)
