import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.executor.sampling_state import GREEDY_BELOW, SamplingState
from shared import wire

VOCABULARY = 50
token_ids = st.lists(st.integers(0, VOCABULARY - 1), max_size=30)


def state(prompt=(), output=(), eos=(), **sampling):
    return SamplingState(wire.Sampling(seed=0, **sampling), prompt, output, eos_token_ids=eos)


def logits(seed=0):
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3


def edited(found, seed=0):
    row = logits(seed)
    found.edit(row)
    return row


def test_without_wishes_nothing_changes():
    assert torch.equal(edited(state([1, 2], [3], eos=(4,))), logits())


@pytest.mark.oracle
@given(token_ids, token_ids, st.floats(0.5, 2.0))
def test_the_repetition_penalty_is_that_of_transformers(prompt, output, penalty):
    from transformers import RepetitionPenaltyLogitsProcessor

    seen = torch.tensor([prompt + output], dtype=torch.int64)
    expected = RepetitionPenaltyLogitsProcessor(penalty)(seen, logits()[None].clone())[0]
    torch.testing.assert_close(edited(state(prompt, output, repetition_penalty=penalty)), expected)


@pytest.mark.parametrize("penalty", [5e-324, 1e-60, 1e-20])
def test_a_penalty_next_to_nothing_leaves_numbers(penalty):
    found = edited(state(range(VOCABULARY), repetition_penalty=penalty))
    assert (found / GREEDY_BELOW).isfinite().all()


@given(token_ids, token_ids, st.floats(-2, 2), st.floats(-2, 2))
def test_presence_and_frequency_count_the_output_alone(prompt, output, presence, frequency):
    expected = logits()
    for token_id in set(output):
        expected[token_id] -= presence + frequency * output.count(token_id)
    found = edited(state(prompt, output, presence_penalty=presence, frequency_penalty=frequency))
    torch.testing.assert_close(found, expected)


@given(token_ids, token_ids)
def test_appending_is_the_same_as_resuming(prompt, output):
    wishes = {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.25, "min_new_tokens": 10}
    grown, resumed = state(prompt, eos=(4,), **wishes), state(prompt, output, eos=(4,), **wishes)
    for token_id in output:
        grown.append(token_id)
    assert grown.position == resumed.position == len(prompt) + len(output)
    assert torch.equal(edited(grown), edited(resumed))


def test_the_bias_is_added_after_the_penalties():
    found = edited(state([3], repetition_penalty=2.0, logit_bias={3: 5.0, 7: -100.0}))
    penalized = edited(state([3], repetition_penalty=2.0))
    penalized[3] += 5
    penalized[7] -= 100
    torch.testing.assert_close(found, penalized)


@pytest.mark.parametrize(
    ("ignore_eos", "masked"),
    [(False, {4, 5, 9}), (True, {9})],  # an eos token that does not stop the request may come
)
def test_what_would_stop_is_masked_until_enough_tokens_are_there(ignore_eos, masked):
    wishes = {"min_new_tokens": 2, "stop_token_ids": (9,), "ignore_eos": ignore_eos, "logit_bias": {9: 100.0}}
    found = state([1], eos=(4, 5), **wishes)
    for _ in range(2):
        row = edited(found)
        assert set((row == -math.inf).nonzero()[:, 0].tolist()) == masked
        found.append(1)
    assert edited(found).isfinite().all()


@pytest.mark.parametrize(
    ("wishes", "greedy"),
    [({"temperature": 0.0}, True), ({"temperature": 1e-6}, True), ({"top_k": 1}, True), ({"temperature": 0.01}, False)],
)
def test_who_is_greedy(wishes, greedy):
    assert state(**wishes).is_greedy is greedy
