"""Draws against the plain definition, written out over the whole vocabulary in order, and against transformers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.draw import Draw, draw_tokens

VOCABULARY = 3000  # more than the widest short cut


def random_logits(seed, *, rows=1, vocabulary=VOCABULARY, spread=3.0):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


def kept(logits, draw):
    """(token id, probability) of what the filters leave, in the fixed order; probabilities of the whole vocabulary."""
    scores = logits.double() / draw.temperature
    probabilities = scores.softmax(-1).tolist()
    order = sorted(range(len(logits)), key=lambda token_id: (-float(logits[token_id]), token_id))
    order = [token_id for token_id in order if probabilities[token_id] > 0]
    if draw.top_k is not None:
        order = order[: draw.top_k]
    mass, likelier, left = sum(probabilities[token_id] for token_id in order), 0.0, []
    for token_id in order:
        if draw.top_p < 1 and likelier >= draw.top_p * mass:
            break
        left.append(token_id)
        likelier += probabilities[token_id]
    floor = draw.min_p * probabilities[order[0]]
    return [(token_id, probabilities[token_id]) for token_id in left if probabilities[token_id] >= floor]


def edges(logits, draw):
    """The token ids in order and the points of [0, 1] at which each one's share ends."""
    token_ids, probabilities = zip(*kept(logits, draw), strict=True)
    shares = torch.tensor(probabilities, dtype=torch.float64).cumsum(0)
    return token_ids, (shares / shares[-1]).tolist()


def with_uniform(draw, number):
    return Draw(draw.temperature, draw.top_k, draw.top_p, draw.min_p, number)


filters = st.builds(
    Draw,
    temperature=st.floats(0.2, 2.0),
    top_k=st.none() | st.sampled_from([1, 2, 20, 63, 64, 65, 66, 100, 1024, 1025, 2999]),
    top_p=st.floats(0.01, 1.0),
    min_p=st.just(0.0) | st.floats(0.0, 1.0),
    uniform=st.floats(0, 1, exclude_max=True),
)
spreads = st.sampled_from([0.1, 1.0, 3.0, 10.0])  # from nearly flat to nearly sure


@settings(deadline=None, max_examples=150)
@given(filters, spreads, st.integers(0, 1000))
def test_a_draw_is_the_token_whose_share_the_number_falls_in(draw, spread, seed):
    logits = random_logits(seed, spread=spread)
    token_ids, ends = edges(logits[0], draw)
    (found,) = draw_tokens(logits.clone(), [draw])
    place = token_ids.index(found)
    start = ends[place - 1] if place else 0.0
    assert start - 1e-5 <= draw.uniform <= ends[place] + 1e-5  # the edges themselves are subject to rounding


@settings(deadline=None, max_examples=60)
@given(filters, spreads, st.integers(0, 1000))
def test_every_share_is_drawn_from_its_middle(draw, spread, seed):
    logits = random_logits(seed, spread=spread)
    token_ids, ends = edges(logits[0], draw)
    starts = [0.0, *ends[:-1]]
    wide = [place for place in range(len(ends)) if ends[place] - starts[place] > 1e-4]
    places = sorted({*wide[:10], *wide[-10:]})
    draws = [with_uniform(draw, (starts[place] + ends[place]) / 2) for place in places]
    assert draw_tokens(logits.repeat(len(places), 1), draws) == [token_ids[place] for place in places]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(filters, spreads, st.integers(0, 1000)), min_size=1, max_size=8), st.randoms())
def test_the_batch_does_not_matter(rows, random):
    draws = [draw for draw, _, _ in rows]
    logits = torch.cat([random_logits(seed, spread=spread) for _, spread, seed in rows])
    alone = [draw_tokens(logits[row : row + 1].clone(), [draw])[0] for row, draw in enumerate(draws)]
    order = random.sample(range(len(rows)), len(rows))
    together = draw_tokens(logits[order], [draws[row] for row in order])
    assert together == [alone[row] for row in order]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 2000), st.integers(1, 3000), st.integers(0, 100))
def test_ties_stand_by_id_also_where_a_short_cut_ends(ahead, tied, seed):
    """`ahead` likelier tokens, then `tied` equal ones, at random ids."""
    places = torch.randperm(5001, generator=torch.Generator().manual_seed(seed))
    logits = torch.full((1, 5001), -math.inf)
    logits[0, places[:ahead]] = 2.0
    logits[0, places[ahead : ahead + tied]] = 1.0
    ordered = places[:ahead].sort().values.tolist() + places[ahead : ahead + tied].sort().values.tolist()
    weights = torch.tensor([2.0] * ahead + [1.0] * tied, dtype=torch.float64).exp()
    middles = (weights.cumsum(0) - weights / 2) / weights.sum()
    wanted = [0, ahead - 1, ahead, ahead + tied // 2, ahead + tied - 1]
    draws = [Draw(1.0, None, 1.0, 0.0, float(middles[place])) for place in wanted]
    assert draw_tokens(logits.repeat(len(wanted), 1), draws) == [ordered[place] for place in wanted]


def test_top_k_keeps_as_many_as_it_says_when_tokens_tie():
    logits = torch.zeros(1, 3000)
    for top_k in (1, 5, 65, 66, 2000):
        assert draw_tokens(logits.clone(), [Draw(1.0, top_k, 1.0, 0.0, 1 - 2**-53)]) == [top_k - 1]


@pytest.mark.oracle
@settings(deadline=None, max_examples=60)
@given(filters, spreads, st.integers(0, 1000))
def test_the_filters_keep_what_those_of_transformers_keep(draw, spread, seed):
    from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = random_logits(seed, spread=spread)
    scores = TemperatureLogitsWarper(draw.temperature)(None, logits.double())
    if draw.top_k is not None:
        scores = TopKLogitsWarper(draw.top_k)(None, scores)
    if draw.top_p < 1:
        scores = TopPLogitsWarper(draw.top_p)(None, scores)
    scores = MinPLogitsWarper(draw.min_p)(None, scores)
    theirs = scores[0].softmax(-1)
    ours = torch.zeros(VOCABULARY, dtype=torch.float64)
    token_ids, probabilities = zip(*kept(logits[0], draw), strict=True)
    ours[list(token_ids)] = torch.tensor(probabilities, dtype=torch.float64)
    ours /= ours.sum()
    # A token that stands on an edge may fall either way, and so may the dust beyond the precision of a sum.
    edge = max(float(theirs[theirs > 0].min()), 1e-9)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=2 * edge)
    assert abs(int((ours >= edge).sum()) - int((theirs >= edge).sum())) <= 1


def test_rows_that_are_no_distribution_fail_alone():
    logits = random_logits(1, rows=5)
    expected = draw_tokens(logits.clone(), [Draw(1.0, None, 1.0, 0.0, 0.5)] * 5)
    logits[0, 7] = math.nan
    logits[2] = -math.inf
    logits[4, 9] = math.inf
    found = draw_tokens(logits, [Draw(1.0, None, 1.0, 0.0, 0.5)] * 5)
    assert found == [None, expected[1], None, expected[3], None]


def test_a_token_that_is_not_allowed_is_never_drawn():
    logits = torch.full((1, 3000), -math.inf)
    logits[0, 2500] = 1.0
    for number in (0.0, 0.5, 1 - 2**-53):
        for top_k in (None, 10, 2000):
            assert draw_tokens(logits.clone(), [Draw(1.0, top_k, 0.9, 0.1, number)]) == [2500]


@pytest.mark.parametrize("vocabulary", [1, 2, 64, 65, 66, 1025])
def test_small_vocabularies(vocabulary):
    logits = random_logits(3, vocabulary=vocabulary)
    draw = Draw(1.0, None, 1.0, 0.0, 0.999)
    token_ids, ends = edges(logits[0], draw)
    expected = next(token_id for token_id, end in zip(token_ids, ends, strict=True) if end > 0.999)
    assert draw_tokens(logits, [draw]) == [expected]
