import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.executor.model.config import parse_shape
from services.executor.model.rope import inverse_frequencies, rotate, rotation
from tests.support.tiny_model import tiny_config

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # so that a head of 16 has kept, blended and slowed waves
}


def shape(**changes):
    return parse_shape(tiny_config("llama", context_length=256) | changes)


@pytest.mark.oracle
@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 4.0}, LLAMA3])
def test_frequencies_are_those_of_transformers(scaling):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    content = tiny_config("llama", context_length=256) | ({"rope_scaling": scaling} if scaling else {})
    theirs = LlamaRotaryEmbedding(LlamaConfig(**content)).inv_freq
    torch.testing.assert_close(inverse_frequencies(parse_shape(content)), theirs, rtol=2e-7, atol=0)


def test_unscaled_frequencies_fall_from_one_turn_a_radian():
    frequencies = inverse_frequencies(shape())
    assert frequencies[0] == 1
    torch.testing.assert_close(frequencies[1:] / frequencies[:-1], torch.full((7,), 10000.0 ** (-1 / 8)))


def test_divisors_divide_each_its_own_frequency():
    divisors = [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0]
    scaled = inverse_frequencies(shape(rope_scaling={"rope_type": "divided", "divisors": divisors}))
    torch.testing.assert_close(scaled, inverse_frequencies(shape()) / torch.tensor(divisors))


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_scores_depend_on_the_distance_alone(query, distance, shift):
    frequencies = inverse_frequencies(shape())
    heads = torch.randn(1, 1, 16, generator=torch.Generator().manual_seed(1))

    def score(a, b):
        turned = [rotate(heads, *rotation(torch.tensor([p]), frequencies, torch.float32)) for p in (a, b)]
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(
        score(query, query + distance), score(query + shift, query + shift + distance), rtol=1e-4, atol=1e-3
    )


def test_the_first_position_is_left_as_it_is():
    heads = torch.randn(1, 3, 16)
    turned = rotate(heads, *rotation(torch.tensor([0]), inverse_frequencies(shape()), torch.float32))
    assert torch.equal(turned, heads)
