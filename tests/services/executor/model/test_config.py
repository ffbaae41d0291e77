import json

import pytest

from services.executor.model.config import DividedRope, LinearRope, Llama3Rope, parse_shape, read_shape
from shared.config import ConfigError
from tests.support.tiny_model import ARCHITECTURES, tiny_config

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def shape(architecture="llama", **changes):
    return parse_shape(tiny_config(architecture, context_length=256) | changes)


def test_reads_what_the_forward_needs():
    found = shape("llama")
    assert (found.layers, found.hidden_size, found.intermediate_size, found.vocab_size) == (2, 64, 112, 320)
    assert (found.heads, found.kv_heads, found.head_dim, found.max_position) == (4, 2, 16, 256)
    assert (found.rope_theta, found.rope_scaling, found.rms_norm_eps) == (10000.0, None, 1e-5)


@pytest.mark.parametrize(
    ("architecture", "qkv_bias", "output_bias", "query_key_norm", "tied"),
    [
        ("llama", False, False, False, False),
        ("qwen2", True, False, False, True),
        ("qwen3", False, False, True, True),
        ("mistral", False, False, False, False),
    ],
)
def test_knows_what_tells_the_lines_apart(architecture, qkv_bias, output_bias, query_key_norm, tied):
    found = shape(architecture)
    assert (found.qkv_bias, found.output_bias, found.query_key_norm) == (qkv_bias, output_bias, query_key_norm)
    assert found.tied_embeddings is tied


def test_a_llama_with_biases_has_them_at_the_output_too():
    found = shape("llama", attention_bias=True)
    assert found.qkv_bias
    assert found.output_bias


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_head_dim_may_be_implied(architecture):
    content = tiny_config(architecture, 256)
    content.pop("head_dim", None)
    assert parse_shape(content).head_dim == (128 if architecture == "qwen3" else 16)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"rope_scaling": None}, None),
        ({"rope_scaling": {"rope_type": "default"}}, None),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, LinearRope(4.0)),
        ({"rope_scaling": {"rope_type": "llama3", **LLAMA3}}, Llama3Rope(8.0, 1.0, 4.0, 64)),
        ({"rope_scaling": {"rope_type": "divided", "divisors": [1.0, 2.0]}}, DividedRope((1.0, 2.0))),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 500.0}}, LinearRope(2.0)),
    ],
)
def test_rope_scaling_in_its_old_and_new_places(changes, expected):
    assert shape("llama", **changes).rope_scaling == expected


def test_transformers_5_keeps_theta_among_the_rope_parameters():
    assert shape("llama", rope_parameters={"rope_type": "default", "rope_theta": 500.0}).rope_theta == 500.0
    assert shape("llama", rope_parameters={"rope_type": "default"}, rope_theta=600.0).rope_theta == 600.0
    with pytest.raises(ConfigError, match=r"unsupported partial_rotary_factor = 0\.5"):
        shape("llama", rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5})


def test_a_sliding_window_limits_the_context():
    assert shape("mistral", sliding_window=100).max_position == 100
    assert shape("mistral", sliding_window=1000).max_position == 256
    assert shape("qwen2", sliding_window=100, use_sliding_window=False).max_position == 256
    assert shape("qwen2", sliding_window=100, use_sliding_window=True).max_position == 100


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "gpt2"}, "unsupported architecture 'gpt2'; supported are llama, qwen2, qwen3, mistral"),
        ({"hidden_act": "gelu"}, "unsupported hidden_act = 'gelu'"),
        ({"mlp_bias": True}, "unsupported mlp_bias = True"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantized safetensors"),
    ],
)
def test_refuses_what_the_forward_would_compute_wrongly(changes, named):
    with pytest.raises(ConfigError, match=named):
        shape("llama", **changes)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "cannot read"),
        (json.dumps({"model_type": "llama"}), "num_attention_heads"),
        (
            json.dumps(tiny_config("llama", 256) | {"rope_scaling": {"rope_type": "yarn", "factor": 4}}),
            "yarn.*rope_type",
        ),
        (json.dumps(tiny_config("llama", 256) | {"num_hidden_layers": "two"}), "layers"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path, content, named):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=rf"config\.json.*{named}|{named}.*config\.json"):
        read_shape(tmp_path)


def test_there_must_be_a_config(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_shape(tmp_path)
