import json

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from services.executor.model import gguf_weights
from services.executor.model.checkpoint import open_checkpoint
from services.executor.model.gguf_config import config_of
from services.executor.model.gguf_file import GgufFile
from services.executor.model.gguf_weights import hugging_face_name, unpermuted, write_weights
from shared.config import ConfigError
from tests.support.tiny_gguf import make_tiny_gguf
from tests.support.tiny_model import make_tiny_model


def convert(path, target):
    file = GgufFile(path)
    target.mkdir()
    write_weights(file, config_of(file), target)
    return target


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [("llama", {}), ("llama", {"attention_bias": True}), ("qwen2", {}), ("qwen3", {})],
)
def test_gives_back_the_folders_weights_bit_for_bit(tmp_path, architecture, changes):
    folder = make_tiny_model(tmp_path / "folder", architecture, **changes)
    target = convert(make_tiny_gguf(tmp_path / "model.gguf", folder), tmp_path / "target")
    expected, found = load_file(folder / "model.safetensors"), load_file(target / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_matrices_keep_their_form(tmp_path, architecture, kind):
    """The rows that are put in another order, too."""
    folder = make_tiny_model(tmp_path / "folder", architecture, intermediate_size=128, head_dim=32)
    quantization = gguf.GGMLQuantizationType[kind]
    path = make_tiny_gguf(tmp_path / "model.gguf", folder, quantization=quantization)
    target = convert(path, tmp_path / "target")
    weights = load_file(folder / "model.safetensors")
    with open_checkpoint(target) as checkpoint:
        for name, values in weights.items():
            if values.ndim == 1:
                np.testing.assert_array_equal(checkpoint.vector(name, *values.shape), values)
                continue
            matrix = checkpoint.matrix(name, *values.shape)
            expected = gguf.quants.dequantize(gguf.quants.quantize(values, quantization), quantization)
            assert matrix.kind == kind
            np.testing.assert_array_equal(matrix.dequantised(), expected, err_msg=name)


def test_other_kinds_become_float32(tmp_path):
    folder = make_tiny_model(tmp_path / "folder", intermediate_size=128)
    quantization = gguf.GGMLQuantizationType.Q5_0
    target = convert(make_tiny_gguf(tmp_path / "model.gguf", folder, quantization=quantization), tmp_path / "target")
    name = "model.layers.1.mlp.up_proj.weight"
    values = load_file(folder / "model.safetensors")[name]
    expected = gguf.quants.dequantize(gguf.quants.quantize(values, quantization), quantization)
    with open_checkpoint(target) as checkpoint:
        assert checkpoint.matrix(name, 128, 64).kind == "F32"
        np.testing.assert_array_equal(checkpoint.matrix(name, 128, 64).dequantised(), expected)


def test_a_large_model_goes_into_several_files_with_an_index(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_weights, "MAX_SHARD_BYTES", 100_000)
    folder = make_tiny_model(tmp_path / "folder")
    target = convert(make_tiny_gguf(tmp_path / "model.gguf", folder), tmp_path / "target")
    files = sorted(path.name for path in target.glob("*.safetensors"))
    assert len(files) > 2
    placed = json.loads((target / "model.safetensors.index.json").read_text())["weight_map"]
    expected = load_file(folder / "model.safetensors")
    assert placed.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(load_file(target / placed[name])[name], values)


def test_an_unknown_tensor_is_refused(tmp_path):
    folder = make_tiny_model(tmp_path / "folder")
    path = make_tiny_gguf(tmp_path / "model.gguf", folder, tensors={"blk.0.novelty.weight": np.ones(4, np.float32)})
    with pytest.raises(ConfigError, match=r"unknown tensor blk\.0\.novelty\.weight"):
        convert(path, tmp_path / "target")


def test_the_factors_of_rope_are_no_weight(tmp_path):
    folder = make_tiny_model(tmp_path / "folder")
    path = make_tiny_gguf(tmp_path / "model.gguf", folder, tensors={"rope_freqs.weight": np.ones(8, np.float32)})
    assert "rope_freqs.weight" not in load_file(convert(path, tmp_path / "target") / "model.safetensors")


def test_names():
    assert hugging_face_name("token_embd.weight") == "model.embed_tokens.weight"
    assert hugging_face_name("blk.12.attn_q.bias") == "model.layers.12.self_attn.q_proj.bias"
    assert hugging_face_name("blk.12.novelty.weight") is None
    assert hugging_face_name("novelty.weight") is None


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_unpermuting_puts_the_real_rows_of_each_head_first(heads, pairs, columns):
    rows = np.arange(heads * 2 * pairs * columns, dtype=np.float32).reshape(-1, columns)
    found = unpermuted(rows, heads)
    for head in range(heads):
        own = rows[head * 2 * pairs : (head + 1) * 2 * pairs]
        np.testing.assert_array_equal(found[head * 2 * pairs : head * 2 * pairs + pairs], own[0::2])
        np.testing.assert_array_equal(found[head * 2 * pairs + pairs : (head + 1) * 2 * pairs], own[1::2])
