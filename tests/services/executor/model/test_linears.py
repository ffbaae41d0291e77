import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear

from services.executor.model import linears
from services.executor.model.linears import Half, OneDnn, Plain, choose, half_or, survives_half

CPU = torch.device("cpu")
# Weights and inputs are of the order of one, so outputs are of the order of the root of the number of inputs.
ERRORS = {Plain: 0.0, OneDnn: 1e-6, Half: 5e-4}


def available(form):
    """Skips where this build of torch lacks the form."""
    if form is not Plain and not linears._works(form):
        pytest.skip(f"no {form.__name__} here")
    return form


@pytest.mark.parametrize("form", ERRORS)
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 70), st.integers(1, 130), st.integers(1, 130), st.booleans(), st.integers(0, 1000))
def test_computes_what_torchs_linear_computes(form, rows, outputs, inputs, has_bias, seed):
    make, generator = available(form), torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=generator)
    bias = torch.randn(outputs, generator=generator) if has_bias else None
    batch = torch.randn(rows, inputs, generator=generator)
    found = make(weight, bias)(batch)
    assert found.dtype == torch.float32
    error = 5 * ERRORS[form] * inputs**0.5
    torch.testing.assert_close(found, linear(batch, weight, bias), rtol=ERRORS[form], atol=error)


@pytest.mark.parametrize("form", ERRORS)
def test_rows_may_be_parts_of_wider_ones(form):
    make, batch, weight = available(form), torch.randn(5, 48), torch.randn(8, 32)
    found = make(weight, None)(batch[:, 16:])
    torch.testing.assert_close(found, linear(batch[:, 16:], weight), rtol=1e-3, atol=2e-2)


def test_half_rounds_the_weights_and_nothing_else():
    make, weight, batch = available(Half), torch.randn(32, 64), torch.randn(7, 64)
    expected = linear(batch, weight.half().float())
    torch.testing.assert_close(make(weight, None)(batch), expected, rtol=1e-5, atol=1e-5)


def test_half_takes_half_the_room():
    weight, bias = torch.randn(32, 64), torch.randn(32)
    assert Plain(weight, bias).num_bytes == available(OneDnn)(weight, bias).num_bytes == 4 * (32 * 64 + 32)
    assert available(Half)(weight, bias).num_bytes == 2 * 32 * 64 + 4 * 32


@pytest.mark.parametrize(
    ("weight", "survives"),
    [
        (torch.randn(16, 16), True),
        (torch.full((4, 4), 65504.0), True),
        (torch.full((4, 4), 65504.0).index_fill(0, torch.tensor([1]), 70000.0), False),
        (torch.randn(16, 16) * 1e-7, False),  # under the smallest normal float16
        (torch.randn(16, 16).index_fill(0, torch.tensor([1]), 1e-7), True),  # a row that hardly counts
        (torch.zeros(4, 4), True),
    ],
)
def test_only_matrices_that_survive_it_become_half(weight, survives):
    assert survives_half(weight) == survives
    form = available(Half) if survives else Plain
    assert isinstance(half_or(Plain, weight, None), form)


def test_a_matrix_beyond_halfs_range_is_computed_exactly():
    weight, batch = torch.randn(8, 8) * 1e6, torch.randn(3, 8)
    outputs = choose(CPU, torch.float32, "float16")(weight, None)(batch)
    torch.testing.assert_close(outputs / 1e6, linear(batch, weight) / 1e6)


def test_chooses_by_device_and_arithmetic():
    assert choose(CPU, torch.bfloat16, "float16") is Plain
    assert choose(torch.device("cuda"), torch.float32, "float16") is Plain
    assert choose(CPU, torch.float32, "float32") is available(OneDnn)
    make = choose(CPU, torch.float32, "float16")
    assert isinstance(make(torch.randn(4, 4), None), available(Half))


class Missing:
    def __init__(self, weight, bias):
        raise AttributeError("no such operator")


class Wrong(Plain):
    def __call__(self, inputs):
        return super().__call__(inputs) * 1.5


@pytest.mark.parametrize("broken", [Missing, Wrong])
def test_what_does_not_work_here_is_not_used(monkeypatch, broken):
    monkeypatch.setattr(linears, "OneDnn", broken)
    monkeypatch.setattr(linears, "Half", broken)
    assert choose(CPU, torch.float32, "float32") is Plain
    assert choose(CPU, torch.float32, "float16") is Plain
