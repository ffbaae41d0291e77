import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from services.executor.model.checkpoint import open_checkpoint
from shared.config import ConfigError
from tests.support.stored import make_stored


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(torch.float32, "F32"), (torch.float16, "F16"), (torch.bfloat16, "BF16"), (torch.float64, "F32")],
)
def test_floats_are_given_as_they_are_stored(tmp_path, dtype, kind):
    values = torch.randn(3, 5).to(dtype)
    save_file({"weight": values, "bias": values[0].clone()}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        matrix, vector = checkpoint.matrix("weight", 3, 5), checkpoint.vector("bias", 5)
    assert matrix.kind == kind
    np.testing.assert_array_equal(matrix.dequantised(), values.float().numpy())  # also after the files are closed
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, values[0].float().numpy())


def test_bytes_are_what_the_metadata_says(tmp_path):
    stored = make_stored("Q8_0", 3, 64)
    tensors = {"weight": torch.from_numpy(stored.raw)}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt", "weight": "Q8_0"})
    with open_checkpoint(tmp_path) as checkpoint:
        matrix = checkpoint.matrix("weight", 3, 64)
    np.testing.assert_array_equal(matrix.dequantised(), stored.dequantised())


@pytest.mark.parametrize("shape", [(3, 6), (5, 3), (15, 1)])
def test_another_shape_than_expected_is_refused(tmp_path, shape):
    save_file({"weight": torch.ones(3, 5)}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(ConfigError, match="'weight' does not have the shape"):
        checkpoint.matrix("weight", *shape)


def test_vectors_and_matrices_are_not_mistaken_for_each_other(tmp_path):
    save_file({"weight": torch.ones(3, 5), "bias": torch.ones(15)}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        with pytest.raises(ConfigError, match="'weight' does not have"):
            checkpoint.vector("weight", 15)
        with pytest.raises(ConfigError, match="'bias' does not have"):
            checkpoint.matrix("bias", 3, 5)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(ConfigError, match="cannot read the weights"), open_checkpoint(tmp_path):
        pass
