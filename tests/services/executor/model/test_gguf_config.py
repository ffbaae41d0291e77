import numpy as np
import pytest

from services.executor.model.config import DividedRope, LinearRope, parse_shape, read_shape
from services.executor.model.gguf_config import config_of
from services.executor.model.gguf_file import GgufFile
from shared.config import ConfigError
from tests.support.tiny_gguf import make_tiny_gguf
from tests.support.tiny_model import make_tiny_model


def gguf_of(tmp_path, architecture="llama", changes=None, **options):
    folder = make_tiny_model(tmp_path / "folder", architecture, **(changes or {}))
    return folder, GgufFile(make_tiny_gguf(tmp_path / "model.gguf", folder, **options))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
def test_the_shape_is_that_of_the_folder(tmp_path, architecture, tied):
    folder, file = gguf_of(tmp_path, architecture, {"tie_word_embeddings": tied, "rms_norm_eps": 2.0**-17})
    assert parse_shape(config_of(file)) == read_shape(folder)


def test_biases_are_seen_in_the_tensors(tmp_path):
    folder, file = gguf_of(tmp_path, "llama", {"attention_bias": True, "rms_norm_eps": 2.0**-17})
    assert parse_shape(config_of(file)) == read_shape(folder)


def test_as_many_kv_heads_as_heads_unless_it_says_otherwise(tmp_path):
    _, file = gguf_of(tmp_path, changes={"num_key_value_heads": 4}, metadata={"llama.attention.head_count_kv": None})
    assert parse_shape(config_of(file)).kv_heads == 4


def test_linear_rope_scaling(tmp_path):
    metadata = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    _, file = gguf_of(tmp_path, metadata=metadata)
    assert parse_shape(config_of(file)).rope_scaling == LinearRope(4.0)


def test_rope_frequencies_stored_as_a_tensor(tmp_path):
    divisors = np.array([1, 1, 2, 2, 4, 4, 8, 8], np.float32)
    _, file = gguf_of(tmp_path, tensors={"rope_freqs.weight": divisors})
    assert parse_shape(config_of(file)).rope_scaling == DividedRope(tuple(divisors.tolist()))


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"llama.expert_count": 8}, "mixtures of experts"),
        ({"llama.rope.dimension_count": 8}, "rotary embedding of a part"),
        ({"llama.rope.scaling.type": "yarn"}, "rope scaling 'yarn'"),
        ({"llama.block_count": None}, r"no llama\.block_count"),
        ({"general.architecture": "gemma"}, "unsupported architecture 'gemma'"),
    ],
)
def test_refuses_what_the_forward_would_compute_wrongly(tmp_path, metadata, named):
    _, file = gguf_of(tmp_path, metadata=metadata)
    with pytest.raises(ConfigError, match=named):
        config_of(file)
