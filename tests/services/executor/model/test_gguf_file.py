import gguf
import numpy as np
import pytest

from services.executor.model.gguf_file import GgufFile
from shared.config import ConfigError
from tests.support.tiny_gguf import make_tiny_gguf
from tests.support.tiny_model import make_tiny_model


@pytest.fixture
def folder(tmp_path):
    return make_tiny_model(tmp_path / "folder", hidden_size=64, intermediate_size=128)


def test_reads_metadata_by_key_and_by_architecture(tmp_path, folder):
    file = GgufFile(make_tiny_gguf(tmp_path / "model.gguf", folder))
    assert file.architecture == "llama"
    assert file.get("tokenizer.ggml.pre", None) == "gpt-2"
    assert file.get("no.such.key", 7) == 7
    assert file.model("context_length", 0) == file.require_model("context_length") == 1024
    assert len(file.require("tokenizer.ggml.tokens")) == 320
    with pytest.raises(ConfigError, match=r"model\.gguf.*no llama\.nothing"):
        file.require_model("nothing")


@pytest.mark.parametrize(("quantization", "error"), [("Q8_0", 0.01), ("Q4_1", 0.1), ("F16", 1e-3), ("BF16", 0.01)])
def test_dequantises_to_float32_in_torchs_order(tmp_path, folder, quantization, error):
    kind = gguf.GGMLQuantizationType[quantization]
    exact = GgufFile(make_tiny_gguf(tmp_path / "exact.gguf", folder)).tensor("blk.1.ffn_down.weight")
    found = GgufFile(make_tiny_gguf(tmp_path / "q.gguf", folder, quantization=kind)).tensor("blk.1.ffn_down.weight")
    assert (found.dtype, found.shape) == (np.float32, (64, 128))
    assert 0 < np.abs(found - exact).max() < error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a model, but a longer text of some words", "is no GGUF file: it does not begin with GGUF"),
        (b"", "is no GGUF file: it does not begin with GGUF"),
        (b"GGUF and no more", "is no readable GGUF file"),
    ],
)
def test_refuses_what_is_no_gguf_file(tmp_path, content, message):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"model\.gguf {message}"):
        GgufFile(path)


def test_a_file_that_is_not_there_is_told_so(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        GgufFile(tmp_path / "model.gguf")


def test_refuses_a_part_of_a_split_file(tmp_path, folder):
    path = make_tiny_gguf(tmp_path / "model.gguf", folder, metadata={"split.count": 3})
    with pytest.raises(ConfigError, match="one of 3 parts"):
        GgufFile(path)


def test_a_matrix_is_given_as_it_is_stored(tmp_path, folder):
    file = GgufFile(make_tiny_gguf(tmp_path / "q.gguf", folder, quantization=gguf.GGMLQuantizationType.Q4_1))
    matrix = file.stored("blk.1.ffn_down.weight")
    assert (matrix.kind, matrix.outputs, matrix.inputs) == ("Q4_1", 64, 128)
    np.testing.assert_array_equal(matrix.dequantised(), file.tensor("blk.1.ffn_down.weight"))
    assert file.stored("blk.1.ffn_norm.weight") is None, "a vector"


def test_a_matrix_of_another_kind_is_not_given_as_it_is(tmp_path, folder):
    file = GgufFile(make_tiny_gguf(tmp_path / "q.gguf", folder, quantization=gguf.GGMLQuantizationType.Q5_1))
    assert file.stored("blk.1.ffn_down.weight") is None
