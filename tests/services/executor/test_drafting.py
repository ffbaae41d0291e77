from __future__ import annotations

import numpy as np
import pytest

from services.executor.chunk import Chunk
from services.executor.drafting import Drafting
from services.executor.drafts import Drafts
from services.executor.lanes import Lane
from services.executor.row_cost import GUESSED_FIXED_ROWS
from shared import wire

PROMPT = (1, 2, 3, 4, 1, 2)


def chunk(
    number: int = 0, *, acceptance: float = 0.9, max_new_tokens: int = 20, own_tokens: int = 1, guess: bool = True
) -> Chunk:
    admit = wire.Admit(number, "r", PROMPT, wire.Sampling(seed=0), max_new_tokens, resume_token_ids=(3,))
    lane = Lane(admit, page_size=1, eos_token_ids=frozenset())
    lane.drafts = Drafts()
    if guess:
        lane.drafts.observe(lane.tokens)
    lane.drafts.acceptance = acceptance
    return Chunk(lane, lane.known - own_tokens, lane.known)


def shared(drafting: Drafting, *chunks: Chunk, spare: int = 100) -> dict[int, int]:
    return {chunk.lane.number: count for chunk, count in drafting.share(chunks, spare)}


def test_a_row_more_pays_as_long_as_it_is_likelier_to_be_right_than_dear() -> None:
    drafting = Drafting(most_tokens=50)
    for rows in (1, 4, 16):
        count = drafting.pays(0.9, rows)
        least = rows / (rows + GUESSED_FIXED_ROWS)
        assert 0.9 ** (count + 1) < 1.1 * least <= 0.9**count or count == 0


def test_the_fewer_rows_the_longer_the_drafts() -> None:
    counts = [Drafting(most_tokens=50).pays(0.9, rows) for rows in (1, 2, 4, 8, 64, 513)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= 8
    assert counts[-2:] == [0, 0]


def test_nobody_drafts_what_is_seldom_right() -> None:
    assert Drafting().pays(0.1, 1) == 0
    assert Drafting().pays(0.5, 1) == 2
    assert Drafting(most_tokens=3).pays(1.0, 1) == 3


def test_measured_steps_decide_what_a_row_costs() -> None:
    cheap, dear = Drafting(), Drafting()
    for size in (1, 6, 1, 6, 1, 6) * 10:
        chunks = [chunk(number) for number in range(size)]
        cheap.observe(chunks, 1.0 + 0.01 * size)
        dear.observe(chunks, 0.1 * size)
    assert cheap.pays(0.6, 8) > 0
    assert dear.pays(0.6, 1) == 0


def test_steps_with_prompts_or_nothing_are_no_measure() -> None:
    drafting = Drafting()
    drafting.observe([chunk(0), chunk(1, own_tokens=5)], 1.0)
    drafting.observe([chunk(0)], 0.5)
    drafting.observe([], 0.0)
    assert drafting.cost.fixed_rows == pytest.approx(GUESSED_FIXED_ROWS)


def test_the_surest_come_first_until_nothing_is_left_to_spare() -> None:
    chunks = [chunk(0, acceptance=0.7), chunk(1, acceptance=0.95), chunk(2, acceptance=0.8)]
    counts = shared(Drafting(), *chunks, spare=9)
    assert list(counts) == [1, 2]
    assert sum(counts.values()) == 9


@pytest.mark.parametrize("other", [chunk(guess=False), chunk(own_tokens=3), chunk(max_new_tokens=2)])
def test_who_has_no_guess_is_in_its_prompt_or_ends_gets_none(other: Chunk) -> None:
    assert shared(Drafting(), other) == {}


def test_a_draft_leaves_one_token_to_sample() -> None:
    assert shared(Drafting(), chunk(max_new_tokens=4)) == {0: 2}


def test_a_request_without_drafts_gets_none() -> None:
    one = chunk()
    one.lane.drafts = None
    assert shared(Drafting(), one) == {}
    assert np.array_equal(one.drafts, [])
