import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from services.executor.uniform import splitmix64, uniform


def test_splitmix64_gives_the_numbers_of_the_published_code():
    """The first three of the stream that starts at 1234567 (https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64)."""
    states = [1234567 + step * 0x9E3779B97F4A7C15 for step in range(3)]
    assert [splitmix64(state) for state in states] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_the_numbers_never_change():
    """A resumed request must draw what it would have drawn; so must one that another version resumes."""
    assert [uniform(7, position) for position in range(3)] == [
        0.7215081806049702,
        0.6497043364684557,
        0.5493743249193239,
    ]


@given(st.integers(-(2**80), 2**80), st.integers(0, 2**40))
def test_any_seed_gives_a_number_from_zero_up_to_one(seed, position):
    assert 0 <= uniform(seed, position) < 1


def test_numbers_are_even_and_independent_over_seeds_and_positions():
    table = torch.tensor([[uniform(seed, position) for position in range(100)] for seed in range(100)])
    assert len(table.unique()) > 9_990  # float32 joins a few
    counts = torch.histc(table, bins=20, min=0, max=1)
    assert (counts - 500).abs().max() < 5 * math.sqrt(500)
    centred = table - 0.5
    assert abs(float((centred[:, 1:] * centred[:, :-1]).mean())) < 0.005  # from position to position
    assert abs(float((centred[1:] * centred[:-1]).mean())) < 0.005  # from seed to seed
