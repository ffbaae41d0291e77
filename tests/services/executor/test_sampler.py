import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.sampler import Sampled, SamplingFailed, SamplingState, sample
from shared import wire

VOCABULARY = 1500


def logits(*seeds):
    rows = [torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3 for seed in seeds]
    return torch.stack(rows)


def state(prompt=(1, 2, 3), output=(), **sampling):
    return SamplingState(wire.Sampling(**{"seed": 0, **sampling}), prompt, output, eos_token_ids=(0,))


def tokens(results):
    return [result.token_id for result in results]


samplings = st.builds(
    wire.Sampling,
    seed=st.integers(0, 2**63),
    temperature=st.sampled_from([0.0, 0.7, 1.0, 1.5]),
    top_k=st.none() | st.integers(1, 200),
    top_p=st.floats(0.1, 1.0),
    min_p=st.sampled_from([0.0, 0.05]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    logit_bias=st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(-20, 20), max_size=3),
    min_new_tokens=st.integers(0, 4),
    logprobs=st.booleans(),
    top_logprobs=st.integers(0, 5),
)
requests = st.tuples(samplings, st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9), st.integers(0, 99))


@settings(deadline=None, max_examples=60)
@given(st.lists(requests, min_size=1, max_size=8), st.randoms())
def test_a_row_depends_on_itself_alone(rows, random):
    def states(order):
        return [SamplingState(rows[row][0], rows[row][1], eos_token_ids=(0,)) for row in order]

    alone = [sample(logits(rows[row][2]), states([row]))[0] for row in range(len(rows))]
    order = random.sample(range(len(rows)), len(rows))
    together = sample(logits(*(rows[row][2] for row in order)), states(order))
    for row, result in zip(order, together, strict=True):
        assert result.token_id == alone[row].token_id
        assert (result.logprob is None) == (not rows[row][0].logprobs)


@settings(deadline=None, max_examples=40)
@given(requests, st.integers(1, 6), st.integers(0, 6))
def test_a_resumed_request_draws_what_it_would_have_drawn(request, count, cut):
    sampling, prompt, seed = request

    def run(output, until):
        current = SamplingState(sampling, prompt, output, eos_token_ids=(0,))
        output = list(output)
        while len(output) < until:
            (result,) = sample(logits(seed + len(output)), [current])
            current.append(result.token_id)
            output.append(result.token_id)
        return output

    whole = run([], count)
    assert run(whole[:cut], count) == whole


def test_greedy_takes_the_first_of_the_largest():
    rows = logits(1, 2)
    rows[1, 70] = rows[1, 30] = 99.0
    assert tokens(sample(rows.clone(), [state(temperature=0.0)] * 2)) == [int(rows[0].argmax()), 30]
    mixed = sample(rows.clone(), [state(temperature=0.0), state(top_k=1)])
    assert tokens(mixed) == [int(rows[0].argmax()), 30]


def test_another_seed_or_place_draws_another_number():
    rows = torch.zeros(1, VOCABULARY)
    found = {
        tokens(sample(rows.clone(), [state(seed=seed, output=[5] * length)]))[0]
        for seed in range(10)
        for length in range(10)
    }
    assert len(found) > 80


def test_draws_follow_the_distribution():
    """Many seeds at once, against the exact probabilities (chi-square: 1 in 10,000 by chance, but seeds are fixed)."""
    row = torch.tensor([2.0, 1.0, 0.5, 0.0, -0.5, -1.0])
    count = 20_000
    results = sample(row.repeat(count, 1), [state(seed=seed) for seed in range(count)])
    found = torch.bincount(torch.tensor(tokens(results)), minlength=6)
    expected = row.softmax(0) * count
    assert ((found - expected) ** 2 / expected).sum() < 25.7


def test_logprobs_are_the_models_own_before_any_wish():
    rows = logits(4)
    expected = rows[0].log_softmax(0)
    wishes = {"temperature": 0.3, "top_k": 5, "repetition_penalty": 2.0, "logit_bias": {9: 50.0}}
    (result,) = sample(rows.clone(), [state(prompt=[9], logprobs=True, top_logprobs=3, **wishes)])
    assert result.token_id == result.logprob.token_id == 9
    assert result.logprob.logprob == pytest.approx(float(expected[9]), abs=1e-5)
    assert [token_id for token_id, _ in result.logprob.top] == expected.topk(3).indices.tolist()
    assert [logprob for _, logprob in result.logprob.top] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-5)


@pytest.mark.parametrize("wishes", [{"temperature": 0.0}, {"temperature": 1.0}])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_fails_alone(wishes, bad):
    rows = logits(1, 2, 3)
    states = [state(seed=row, logprobs=True, **wishes) for row in range(3)]
    expected = sample(rows.clone(), states)
    rows[1, 100] = bad
    found = sample(rows, states)
    assert isinstance(found[1], SamplingFailed)
    assert [found[0], found[2]] == [expected[0], expected[2]]


def test_a_row_in_which_nothing_is_allowed_fails():
    rows = torch.full((2, VOCABULARY), -math.inf)
    for result in sample(rows, [state(temperature=0.0), state()]):
        assert isinstance(result, SamplingFailed)


def test_no_rows_are_no_work():
    assert sample(torch.empty(0, VOCABULARY), []) == []


def test_what_would_stop_does_not_come_too_early():
    rows = logits(1)
    rows[0, 0] = 100.0  # the end-of-sequence token
    assert tokens(sample(rows.clone(), [state()])) == [0]
    assert tokens(sample(rows.clone(), [state(min_new_tokens=1)])) != [0]
    assert sample(rows, [state(min_new_tokens=1, output=[5])]) == [Sampled(0, None)]
