"""Drafts in a step: whatever is drafted, tokens, endings, log-probabilities and accounts are those of steps without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias
from zlib import crc32

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from services.executor.drafting import Drafting
from services.executor.model.forward import Batch
from shared import wire
from tests.services.executor.test_step import GREEDY, CheapFor, Scheduler, admit, tokens

VOCABULARY = 64
Forward: TypeAlias = Callable[[Batch, Tensor, Tensor], Tensor]


class Eager(Drafting):
    """Drafts whatever there is to draft."""

    def pays(self, acceptance: float, rows: int) -> int:
        return self.most_tokens


def repetitive(context: Sequence[int], vocab_size: int) -> int:
    """Mostly by the last two tokens; now and then, by all of the context, something else."""
    whole = crc32(np.array(context, np.int64).tobytes())
    return whole // 15 % vocab_size if whole % 15 == 0 else crc32(bytes(context[-2:])) % 3


def expected(prompt: Sequence[int], count: int) -> list[int]:
    context = list(prompt)
    for _ in range(count):
        context.append(repetitive(context, VOCABULARY))
    return context[len(prompt) :]


def scheduler_with(drafting: Drafting | None, **more: object) -> Scheduler:
    return Scheduler(rule=repetitive, drafting=drafting, spare_tokens=40, **more)  # type: ignore[arg-type]


def decode_until(scheduler: Scheduler, is_so: Callable[[], bool]) -> None:
    """Lane 0, token by token."""
    for _ in range(200):
        if is_so():
            return
        scheduler.slice(_0=1)
    pytest.fail("it does not come to that")


def accepted(scheduler: Scheduler) -> int:
    return scheduler.result.cache.accepted_tokens


# --- the right tokens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("cached", [True, False])
def test_the_same_tokens_in_fewer_steps(page_size: int, cached: bool) -> None:
    scheduler = scheduler_with(Eager(), page_size=page_size, cached=cached)
    run = scheduler.run(tokens(20), 100)
    assert run.output == tuple(expected(tokens(20), 100))
    assert run.last.finish_reason == "length"
    counters = scheduler.result.cache
    assert counters.drafted_tokens > counters.accepted_tokens > 30
    assert scheduler.seq < 75


def test_several_at_once_with_prompts_beside_them() -> None:
    scheduler = scheduler_with(Eager())
    prompts = [tokens(10 + lane, start=lane) for lane in range(5)]
    for lane, prompt in enumerate(prompts):
        slices = (wire.Slice(lane, 8), *(wire.Slice(before, 1) for before in range(lane)))
        scheduler.step(admits=(admit(lane, prompt, 60),), slices=slices)
    scheduler.finish(*range(5), chunk=6)
    assert [scheduler.output[lane] for lane in range(5)] == [expected(prompt, 60) for prompt in prompts]
    assert accepted(scheduler) > 50


def test_what_is_kept_of_a_request_is_what_was_accepted() -> None:
    scheduler = scheduler_with(Eager())
    output = scheduler.run(tokens(20), 80).output
    text = np.array([*tokens(20), *output])
    assert scheduler.cache.match("", text) == len(text) - 1
    assert scheduler.capacity() == (1000 - (len(text) - 1), len(text) - 1, 0)


def test_drafts_are_bounded_by_what_the_plan_can_spare() -> None:
    scheduler = scheduler_with(Eager())
    scheduler.spare_tokens = 3
    scheduler.step(admits=tuple(admit(lane, tokens(9, start=lane), 60) for lane in range(3)))
    drafted = 0
    for _ in range(200):
        scheduler.slice(_0=9, _1=9, _2=9)
        assert scheduler.result.extra_tokens <= 3
        drafted += scheduler.result.extra_tokens
    assert drafted == scheduler.result.cache.drafted_tokens > 20
    assert [scheduler.output[lane] for lane in range(3)] == [expected(tokens(9, start=lane), 60) for lane in range(3)]


@pytest.mark.parametrize(("drafting", "spare"), [(None, 40), (Eager(), 0)])
def test_without_leave_nothing_is_drafted(drafting: Drafting | None, spare: int) -> None:
    scheduler = scheduler_with(drafting)
    scheduler.spare_tokens = spare
    assert scheduler.run(tokens(20), 60).output == tuple(expected(tokens(20), 60))
    assert scheduler.result.cache.drafted_tokens == 0
    assert {size for batch in scheduler.model.batches for size in batch} == {20, 1}


def test_a_text_that_never_repeats_is_not_drafted_for_long() -> None:
    scheduler = Scheduler(drafting=Drafting(), spare_tokens=40, vocab_size=8, capacity=2000)
    scheduler.run(tokens(8), 1000)
    counters = scheduler.result.cache
    assert counters.drafted_tokens < 60, "of 1,000 tokens whose repetitions mean nothing"


# --- the end ---------------------------------------------------------------------------------------------------------


def outputs(sampling: wire.Sampling, drafting: Drafting | None, *, eos: Sequence[int] = (), count: int = 60) -> object:
    scheduler = scheduler_with(drafting, eos=eos)
    run = scheduler.run(tokens(20), count, sampling=sampling)
    if drafting is not None and len(run.output) > 30:
        assert accepted(scheduler)
    return run.output, run.last.finish_reason, run.last.matched_stop, run.last.computed_tokens


@pytest.mark.parametrize("at", range(10, 40, 3))
def test_end_of_sequence_inside_a_draft_ends_the_output_there(at: int) -> None:
    text = expected(tokens(20), 60)
    for sampling in (
        wire.Sampling(seed=0, temperature=0.0, min_new_tokens=at),
        wire.Sampling(seed=0, temperature=0.0, ignore_eos=True, stop_token_ids=(text[at],), min_new_tokens=at // 2),
    ):
        assert outputs(sampling, Eager(), eos=[text[at]]) == outputs(sampling, None, eos=[text[at]])


@pytest.mark.parametrize("count", [1, 2, *range(20, 50)])
def test_no_draft_goes_beyond_the_most_tokens(count: int) -> None:
    assert outputs(GREEDY, Eager(), count=count) == outputs(GREEDY, None, count=count)


# --- sampling --------------------------------------------------------------------------------------------------------

SAMPLINGS = st.builds(
    wire.Sampling,
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([0.0, 0.0, 1.0, 2.0]),
    top_k=st.sampled_from([None, 3]),
    top_p=st.sampled_from([1.0, 0.9]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 0.0, 2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5]),
    logit_bias=st.sampled_from([{}, {2: 3.0}]),
    min_new_tokens=st.sampled_from([0, 25]),
    stop_token_ids=st.sampled_from([(), (3,)]),
    logprobs=st.booleans(),
    top_logprobs=st.just(2),
)


@settings(max_examples=100, deadline=None)
@given(sampling=SAMPLINGS, prompt=st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_drafts_change_no_request(sampling: wire.Sampling, prompt: list[int]) -> None:
    """Of a model that is undecided; tokens, their log-probabilities and the ending."""
    found = []
    for drafting in (None, Eager()):
        scheduler = Scheduler(rule=repetitive, drafting=drafting, spare_tokens=40, eos=[4])
        scheduler.model.forward = undecided(scheduler.model.forward)  # type: ignore[method-assign]
        scheduler.step(admits=(admit(0, prompt, 40, sampling=sampling),))
        outcomes: list[wire.Outcome] = []
        while not (outcomes and outcomes[-1].finish_reason):
            outcomes.append(scheduler.slice(_0=5)[0])
        ids = [token for outcome in outcomes for token in outcome.new_token_ids]
        scores = [score for outcome in outcomes for score in outcome.logprobs]
        assert len(scores) == (len(ids) if sampling.logprobs else 0)
        found.append((ids, scores, outcomes[-1].finish_reason, outcomes[-1].matched_stop))
    assert found[0] == found[1]


def undecided(forward: Forward) -> Forward:
    """Of these logits, several that are close."""

    def with_noise(batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        logits = forward(batch, keys, values)
        ids = torch.arange(logits.shape[-1])
        return logits * 0.3 + torch.cos(logits.argmax(dim=-1, keepdim=True) + 3.0 * ids)

    return with_noise


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 4])
def test_drafts_take_no_room_from_others(page_size: int) -> None:
    """In a pool that holds both requests and nothing besides."""
    scheduler = scheduler_with(Eager(), capacity=80, page_size=page_size)
    prompts = [tokens(10), tokens(10, start=1)]
    scheduler.step(admits=tuple(admit(lane, prompt, 30) for lane, prompt in enumerate(prompts)))
    scheduler.finish(0, 1)
    assert not any(outcome.declined for outcome in scheduler.last.values())
    assert [scheduler.output[lane] for lane in (0, 1)] == [expected(prompt, 30) for prompt in prompts]


def test_what_wrong_drafts_leave_over_is_anybodys() -> None:
    scheduler = scheduler_with(Eager(), capacity=64)
    scheduler.step(admits=(admit(0, tokens(10), 50),))
    lane = scheduler.runner._lanes[0]
    decode_until(scheduler, lambda: lane.leftover_tokens > 0)
    free = 64 - lane.computed
    assert scheduler.capacity() == (free, 0, lane.computed)
    scheduler.step(admits=(admit(1, tokens(free, start=5)),))
    assert scheduler.slice(_1=free)[1].computed_tokens == free
    assert lane.leftover_tokens == 0
    scheduler.step(release=(1,))
    scheduler.finish(0)
    assert scheduler.output[0] == expected(tokens(10), 50)


def test_the_next_tokens_go_where_wrong_drafts_were() -> None:
    scheduler = scheduler_with(Eager())
    scheduler.step(admits=(admit(0, tokens(10), 90),))
    scheduler.slice(_0=10)
    lane = scheduler.runner._lanes[0]
    for _ in range(20):
        scheduler.slice(_0=1)
    assert accepted(scheduler) < scheduler.result.cache.drafted_tokens
    assert np.diff(lane.slots).tolist() == [1] * (len(lane.slots) - 1)


# --- faults and endings from outside ----------------------------------------------------------------------------------


def test_a_draft_that_cannot_be_computed_does_no_harm() -> None:
    """It may be a token that the request itself never gets to."""
    text = [1, 2, 62, 5, 1, 2]
    scheduler = scheduler_with(Eager())
    scheduler.step(admits=(admit(0, text, 5),))
    scheduler.slice(_0=5)
    scheduler.runner._lanes[0].drafts.observe(np.array(text))  # type: ignore[union-attr]
    scheduler.model.poison = 62
    assert scheduler.slice(_0=1)[0].error is None
    assert scheduler.model.batches[1:3] == [[5], [1]]
    scheduler.finish(0)
    assert scheduler.output[0] == expected(text, 5)


def test_a_row_that_fails_behind_accepted_tokens_fails_in_its_turn() -> None:
    found = []
    for drafting in (None, Eager()):
        scheduler = scheduler_with(drafting)
        honest = scheduler.model.forward

        def forward(batch: Batch, keys: Tensor, values: Tensor, honest=honest) -> Tensor:  # type: ignore[no-untyped-def]
            logits: Tensor = honest(batch, keys, values)
            logits[batch.positions[batch.logits_rows] == 60] = float("nan")
            return logits

        scheduler.model.forward = forward  # type: ignore[method-assign]
        scheduler.step(admits=(admit(0, tokens(20), 90),))
        scheduler.finish(0)
        found.append((scheduler.output[0], scheduler.last[0].finish_reason))
    assert found[0] == found[1]
    assert len(found[0][0]) == 41


def test_a_cancel_between_drafts_gives_all_room_back() -> None:
    scheduler = scheduler_with(Eager(), page_size=4)
    scheduler.step(admits=(admit(0, tokens(20), 90),))
    scheduler.slice(_0=20)
    decode_until(scheduler, lambda: scheduler.result.extra_tokens > 0)
    scheduler.runner.cancel((0,))
    scheduler.runner.check_integrity()
    assert scheduler.capacity()[2] == 0
    scheduler.step(release=(0,))
    assert scheduler.run(tokens(20), 60).output == tuple(expected(tokens(20), 60))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), page_size=st.sampled_from([1, 4]), cached=st.booleans())
def test_any_plan_with_drafts_leaves_exact_accounts_and_right_tokens(
    data: st.DataObject, page_size: int, cached: bool
) -> None:
    """Slices, cancels, and requests that give way, in a small pool; each request that ends has the right tokens."""
    scheduler = scheduler_with(Eager(), capacity=96, page_size=page_size, cached=cached, reuse=CheapFor("b"))
    prompts: dict[int, list[int]] = {}
    resumed: dict[int, list[int]] = {}
    lanes = st.integers(0, 3)
    for _ in range(data.draw(st.integers(1, 30))):
        scheduler.spare_tokens = data.draw(st.integers(0, 12))
        lane = data.draw(lanes)
        if lane not in prompts:
            prompts[lane] = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=12))
            resumed[lane] = []
            scheduler.output.pop(lane, None)
            scheduler.last.pop(lane, None)
            scheduler.step(admits=(admit(lane, prompts[lane], 25, namespace="ab"[lane % 2]),))
        pieces = {lane: data.draw(st.integers(1, 12)) for lane in data.draw(st.sets(lanes))}
        scheduler.step(slices=tuple(wire.Slice(lane, count) for lane, count in pieces.items()))
        for lane in data.draw(st.sets(lanes, max_size=1)) & prompts.keys():
            output = resumed[lane] + scheduler.output.pop(lane, [])
            last = scheduler.last.pop(lane, None)
            assert output == expected(prompts[lane], 25)[: len(output)]
            scheduler.step(release=(lane,))
            if last is not None and last.finish_reason == "length":
                assert len(output) == 25
                del prompts[lane]
            else:
                resumed[lane] = output
                again = admit(lane, prompts[lane], 25, namespace="ab"[lane % 2], resume_token_ids=tuple(output))
                scheduler.step(admits=(again,))
    scheduler.runner.reset()
    assert scheduler.runner.capacity().pinned_tokens == 0
    scheduler.runner.flush()
    assert scheduler.capacity() == (96, 0, 0)
