from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from services.executor.admission import INTERNAL
from services.executor.constraint.stage import ConstraintStage
from services.executor.drafting import Drafting
from services.executor.kv_pool import make_pool
from services.executor.radix_cache import DEAR_PARTS, NoCache, RadixCache
from services.executor.reuse import Reuse
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from shared import wire
from shared.invariant import BrokenInvariant
from tests.support.recording_model import RecordingModel, RecordingShape, continuation, next_token
from tests.support.tree_replica import Replica, copy_of

GREEDY = wire.Sampling(seed=0, temperature=0.0)


@dataclass(frozen=True)
class Run:
    output: tuple[int, ...]
    cached_tokens: int | None
    last: wire.Outcome


class Scheduler:
    """Drives a runner by hand; checks the accounting after each step, and a copy of the tree made of its events."""

    def __init__(
        self,
        *,
        capacity: int = 1000,
        page_size: int = 1,
        vocab_size: int = 64,
        cached: bool = True,
        eos: Sequence[int] = (),
        max_model_len: int = 20_000,
        quota: float = 0.5,
        reuse: Reuse | None = None,
        rule: Callable[[Sequence[int], int], int] = next_token,
        drafting: Drafting | None = None,
        spare_tokens: int = 0,
        constraints: ConstraintStage | None = None,
    ) -> None:
        self.model = RecordingModel(RecordingShape(vocab_size), rule=rule)
        self.slots = SlotAllocator(capacity, page_size)
        self.cache = RadixCache(self.slots, quota=quota) if cached else NoCache(self.slots)
        pool = make_pool(self.model.shape, capacity, device=self.model.device, dtype=self.model.dtype)
        self.runner = StepRunner(
            self.model,
            pool,
            self.slots,
            self.cache,
            eos_token_ids=eos,
            max_model_len=max_model_len,
            reuse=reuse,
            drafting=drafting,
            constraints=constraints,
            clock=lambda: 0.0,
        )
        self.seq = 0
        self.spare_tokens = spare_tokens  # in each plan
        self.replica = Replica()
        self.output: dict[int, list[int]] = {}
        self.last: dict[int, wire.Outcome] = {}

    def step(self, **plan: object) -> dict[int, wire.Outcome]:
        self.seq += 1
        result = self.runner.run(wire.StepPlan(self.seq, spare_tokens=self.spare_tokens, **plan))  # type: ignore[arg-type]
        self.runner.check_integrity()
        self.replica.apply(result.events)
        assert self.replica.nodes == copy_of(self.cache).nodes
        assert result.seq == self.seq
        assert len({outcome.lane for outcome in result.outcomes}) == len(result.outcomes)
        for outcome in result.outcomes:
            self.output.setdefault(outcome.lane, []).extend(outcome.new_token_ids)
            self.last[outcome.lane] = outcome
        self.result = result
        return {outcome.lane: outcome for outcome in result.outcomes}

    def slice(self, **lanes: int) -> dict[int, wire.Outcome]:
        """slice(_3=16): 16 tokens of lane 3."""
        return self.step(slices=tuple(wire.Slice(int(name[1:]), tokens) for name, tokens in lanes.items()))

    def finish(self, *lanes: int, chunk: int = 10_000) -> None:
        """Slices until each of these lanes is over; then they are released."""
        for _ in range(1000):
            open_lanes = [lane for lane in lanes if lane not in self.last or self.last[lane].finish_reason is None]
            if not open_lanes:
                break
            self.step(slices=tuple(wire.Slice(lane, chunk) for lane in open_lanes))
        else:
            pytest.fail(f"lanes {open_lanes} make no progress")
        self.step(release=lanes)

    def run(self, prompt: Sequence[int], max_new_tokens: int = 1, chunk: int = 20_000, **more: object) -> Run:
        """One request from start to end, on lane 99."""
        self.output.pop(99, None)
        self.last.pop(99, None)
        self.step(admits=(admit(99, prompt, max_new_tokens, **more),))
        first = self.slice(_99=chunk).get(99)
        self.finish(99, chunk=chunk)
        return Run(tuple(self.output[99]), first.cached_tokens if first else None, self.last[99])

    def capacity(self) -> tuple[int, int, int]:
        capacity = self.runner.capacity()
        return capacity.free_tokens, capacity.evictable_tokens, capacity.pinned_tokens


def admit(lane: int, prompt: Sequence[int], max_new_tokens: int = 1, **more: object) -> wire.Admit:
    sampling = more.pop("sampling", GREEDY)
    return wire.Admit(lane, f"request-{lane}", tuple(prompt), sampling, max_new_tokens, **more)  # type: ignore[arg-type]


def tokens(count: int, start: int = 0) -> list[int]:
    return [(start + 7 * i) % 61 for i in range(count)]


class CheapFor(Reuse):
    """Finds that these namespaces reuse nothing."""

    def __init__(self, *namespaces: str) -> None:
        super().__init__()
        self.namespaces = namespaces

    def note(self, namespace: str, *, prompt_tokens: int, hit_tokens: int) -> bool:
        return namespace in self.namespaces


# --- the right tokens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("cached", [True, False])
def test_alone_in_chunks_cold_and_warm(chunk: int, page_size: int, cached: bool) -> None:
    scheduler = Scheduler(page_size=page_size, cached=cached)
    for _ in range(2):
        run = scheduler.run(tokens(30), 12, chunk)
        assert run.output == tuple(continuation(tokens(30), 12))
        assert run.last.finish_reason == "length"


def test_prompts_and_decodes_mix_in_one_batch() -> None:
    scheduler = Scheduler()
    prompts = [tokens(5), tokens(40, start=3), tokens(17, start=9)]
    for lane, prompt in enumerate(prompts):
        scheduler.step(admits=(admit(lane, prompt, 8),), slices=(wire.Slice(lane, 16), wire.Slice(0, 1)))
    assert scheduler.model.batches[1] == [16, 1]
    scheduler.finish(0, 1, 2, chunk=16)
    assert [scheduler.output[lane] for lane in range(3)] == [continuation(prompt, 8) for prompt in prompts]


def test_who_gave_way_goes_on_where_it_was() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(20), 10),))
    scheduler.slice(_0=20)
    scheduler.slice(_0=1)
    assert scheduler.step(release=(0,)) == {}
    assert scheduler.capacity() == (979, 21, 0)
    scheduler.run(tokens(25, start=5))
    scheduler.step(admits=(admit(1, tokens(20), 10, resume_token_ids=tuple(scheduler.output[0])),))
    assert scheduler.slice(_1=1)[1].cached_tokens == 21
    scheduler.finish(1)
    assert scheduler.output[0] + scheduler.output[1] == continuation(tokens(20), 10)


def test_what_was_evicted_meanwhile_is_computed_again() -> None:
    scheduler = Scheduler(capacity=40)
    scheduler.step(admits=(admit(0, tokens(20), 10), admit(1, tokens(38, start=30), 3)))
    scheduler.slice(_0=20)
    scheduler.step(release=(0,))
    scheduler.finish(1)
    scheduler.step(admits=(admit(2, tokens(20), 10, resume_token_ids=tuple(scheduler.output[0])),))
    assert scheduler.slice(_2=100)[2].cached_tokens == 0
    scheduler.finish(2)
    assert scheduler.output[0] + scheduler.output[2] == continuation(tokens(20), 10)


def test_a_later_attempt_goes_on_behind_its_resumed_tokens() -> None:
    scheduler = Scheduler()
    expected = continuation(tokens(20), 10)
    run = scheduler.run(tokens(20), 10, resume_token_ids=tuple(expected[:4]))
    assert run.output == tuple(expected[4:])


# --- what the cache gives --------------------------------------------------------------------------------------------


def test_cached_tokens_of_growing_and_shrinking_prompts() -> None:
    scheduler = Scheduler(capacity=22_000, vocab_size=20_000)
    lengths = (100, 10_000, 10_000, 1_000, 11_000)
    found = [scheduler.run(range(length)).cached_tokens or 0 for length in lengths]
    assert found == [0, 100, 9_999, 999, 10_000]
    assert scheduler.result.cache.hit_tokens == sum(found)
    assert scheduler.result.cache.miss_tokens == sum(lengths) - sum(found)


def test_the_next_turn_finds_prompt_and_answer() -> None:
    scheduler = Scheduler()
    conversation = [*tokens(20), *scheduler.run(tokens(20), 10).output]
    assert scheduler.run(conversation + tokens(5, start=2)).cached_tokens == 29  # the last token was never computed


def test_a_running_request_is_shared() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(30), 5),))
    scheduler.slice(_0=20)
    scheduler.step(admits=(admit(1, tokens(30), 5),))
    outcome = scheduler.slice(_1=3)[1]
    assert (outcome.cached_tokens, outcome.computed_tokens) == (20, 23)
    scheduler.finish(0, 1)
    assert scheduler.output[0] == scheduler.output[1] == continuation(tokens(30), 5)


def test_two_who_compute_the_same_at_once_keep_it_once() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(30), 5), admit(1, tokens(30), 5)))
    scheduler.slice(_0=10, _1=10)
    assert scheduler.capacity() == (990, 0, 10)
    scheduler.finish(0, 1)
    assert scheduler.output[0] == scheduler.output[1] == continuation(tokens(30), 5)
    assert scheduler.capacity() == (966, 34, 0)


@pytest.mark.parametrize("chunk", [3, 10_000])
@pytest.mark.parametrize(("page_size", "nodes"), [(1, [(0, 18), (18, 9)]), (4, [(0, 16), (16, 8)])])
def test_the_end_of_a_prompt_stays_a_boundary(page_size: int, nodes: list[tuple[int, int]], chunk: int) -> None:
    scheduler = Scheduler(page_size=page_size)
    expected = tuple(continuation(tokens(18), 10))
    scheduler.run(tokens(18), 10, chunk, resume_token_ids=expected[:4])
    assert [(depth, len(node.tokens)) for depth, node in scheduler.cache.walk()] == nodes


def test_namespaces_do_not_find_each_other() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20), namespace="a")
    assert scheduler.run(tokens(20), namespace="b").cached_tokens == 0
    assert scheduler.run(tokens(20), namespace="a").cached_tokens == 19


def test_a_lane_that_has_not_begun_holds_nothing_and_says_nothing() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20))
    assert scheduler.step(admits=(admit(0, tokens(20)),)) == {}
    assert scheduler.capacity() == (980, 20, 0)
    assert (scheduler.runner.waiting, scheduler.runner.running) == (1, 0)
    scheduler.slice(_0=0)
    assert (scheduler.runner.waiting, scheduler.runner.running) == (1, 0)


def test_hits_and_misses_are_counted_once() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20))
    scheduler.step(admits=(admit(0, tokens(30), 3),))
    scheduler.slice(_0=5)
    scheduler.finish(0)
    assert (scheduler.result.cache.hit_tokens, scheduler.result.cache.miss_tokens) == (20, 30)


def test_a_copy_of_the_tree_follows_through_evictions() -> None:
    scheduler = Scheduler(capacity=60)
    for start in range(8):
        scheduler.step(admits=(admit(0, tokens(20), 4), admit(1, tokens(12 + start, start=start % 3), 4)))
        while any(scheduler.last.get(lane) is None or not scheduler.last[lane].finish_reason for lane in (0, 1)):
            scheduler.slice(_0=7, _1=5)
        scheduler.step(release=(0, 1))
        assert scheduler.result.events == ()
        scheduler.last.clear()
    assert scheduler.result.cache.evicted_tokens


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_slice_without_room_is_declined_and_changes_nothing(page_size: int) -> None:
    scheduler = Scheduler(capacity=40, page_size=page_size)
    scheduler.run(tokens(16))
    scheduler.step(admits=(admit(0, tokens(20, start=1), 5), admit(1, tokens(30), 5)))
    scheduler.slice(_0=20)
    before = (scheduler.capacity(), scheduler.result.cache)
    outcome = scheduler.slice(_1=30)[1]
    assert (outcome.declined, outcome.computed_tokens, outcome.cached_tokens) == (True, 0, 0)
    assert (scheduler.runner.waiting, scheduler.runner.running) == (1, 1)
    assert (scheduler.capacity(), scheduler.result.cache.hit_tokens) == (before[0], before[1].hit_tokens)
    scheduler.finish(0)
    scheduler.finish(1)
    assert scheduler.output[1] == continuation(tokens(30), 5)


def test_a_running_lane_without_room_keeps_what_it_has() -> None:
    scheduler = Scheduler(capacity=20)
    scheduler.step(admits=(admit(0, tokens(10), 20), admit(1, tokens(10, start=1), 20)))
    outcomes = scheduler.slice(_0=10, _1=10)
    outcomes = scheduler.slice(_0=1, _1=1)
    assert [(outcomes[lane].declined, outcomes[lane].computed_tokens) for lane in (0, 1)] == [(True, 10), (True, 10)]
    scheduler.step(release=(1,))
    assert not scheduler.slice(_0=1)[0].declined


def test_beginners_keep_what_they_found_while_others_make_room() -> None:
    scheduler = Scheduler(capacity=40)
    scheduler.run(tokens(15))
    scheduler.run(tokens(10, start=30))
    scheduler.step(admits=(admit(0, tokens(22, start=20)), admit(1, tokens(18))))
    outcomes = scheduler.slice(_0=22, _1=18)
    assert outcomes[1].cached_tokens == 15


def test_a_released_lane_leaves_its_text_and_frees_the_rest() -> None:
    scheduler = Scheduler(page_size=4)
    scheduler.step(admits=(admit(0, tokens(10), 5),))
    scheduler.slice(_0=10)
    assert scheduler.capacity() == (988, 0, 12)
    scheduler.step(release=(0,))
    assert scheduler.capacity() == (992, 8, 0)


# --- tenants and cheap namespaces -------------------------------------------------------------------------------------


def fill(scheduler: Scheduler, namespace: str, count: int, start: int) -> None:
    """Prompts of 20 tokens that have nothing in common."""
    for first in range(start, start + count):
        scheduler.run([first, *tokens(19)], namespace=namespace)


def test_a_flood_leaves_another_tenant_its_quota() -> None:
    scheduler = Scheduler(capacity=200)
    hot = [0, *tokens(39)]
    scheduler.run(hot, namespace="a")
    scheduler.step(admits=(admit(0, tokens(5), 50, namespace="b"),))
    scheduler.slice(_0=5)  # nobody is alone
    fill(scheduler, "b/one", 20, start=1)
    fill(scheduler, "b/two", 20, start=1)
    assert scheduler.runner.capacity().protected_tokens == {"a": 40, "b": 45}
    assert scheduler.run(hot, namespace="a").cached_tokens == 39


def test_a_lone_request_may_have_everything() -> None:
    scheduler = Scheduler(capacity=100)
    scheduler.run(tokens(50), namespace="a")
    assert scheduler.runner.capacity().protected_tokens == {"a": 25}
    assert scheduler.run(tokens(90), namespace="b").last.finish_reason == "length"
    assert scheduler.capacity()[0] <= 100 // DEAR_PARTS


def test_two_requests_leave_others_their_quotas() -> None:
    scheduler = Scheduler(capacity=100)
    scheduler.run(tokens(50), namespace="a")
    scheduler.step(admits=tuple(admit(lane, tokens(40, start=lane), 5, namespace="b") for lane in range(2)))
    outcomes = scheduler.slice(_0=40, _1=40)
    assert [outcomes[lane].declined for lane in range(2)] == [False, True]
    assert scheduler.capacity()[1] == 50


def test_output_of_a_cheap_namespace_is_shared_at_its_end_in_one_piece() -> None:
    scheduler = Scheduler(reuse=CheapFor("cheap"))
    scheduler.step(admits=(admit(0, tokens(20), 5, namespace="cheap"),))
    scheduler.slice(_0=10)
    assert scheduler.cache.match("cheap", np.array(tokens(11))) == 10
    scheduler.slice(_0=10)
    for _ in range(3):
        scheduler.slice(_0=1)
        assert scheduler.result.events == ()
    assert scheduler.slice(_0=1)[0].finish_reason == "length"
    assert [(depth, len(node.tokens)) for depth, node in scheduler.cache.walk()] == [(0, 24)]
    assert scheduler.capacity() == (976, 24, 0)


def test_a_cancelled_cheap_lane_leaves_its_output_too() -> None:
    scheduler = Scheduler(reuse=CheapFor("cheap"))
    scheduler.step(admits=(admit(0, tokens(20), 5, namespace="cheap"),))
    scheduler.slice(_0=20)
    scheduler.slice(_0=1)
    scheduler.runner.cancel((0,))
    assert scheduler.capacity() == (979, 21, 0)
    scheduler.step()
    assert [type(event) for event in scheduler.result.events] == [wire.Grown]


def test_what_a_cheap_namespace_leaves_goes_first() -> None:
    scheduler = Scheduler(capacity=100, reuse=CheapFor("t/cheap"))
    scheduler.run(tokens(30), namespace="t/full")
    scheduler.run(tokens(40), namespace="t/cheap")
    scheduler.run(tokens(60, start=1), namespace="t/full")
    assert scheduler.cache.match("t/cheap", np.array(tokens(40))) == 0
    assert scheduler.run(tokens(30), namespace="t/full").cached_tokens >= 24, (
        "little of it went too, for a better place"
    )


def test_a_lone_request_takes_what_is_its_own_before_what_is_others() -> None:
    scheduler = Scheduler(capacity=100)
    scheduler.run(tokens(20), namespace="a")
    scheduler.run(tokens(70, start=1), namespace="b")
    scheduler.run(tokens(70, start=2), namespace="b")
    assert scheduler.run(tokens(20), namespace="a").cached_tokens == 19


def test_an_answer_that_is_given_again_leaves_no_trace_in_the_tree() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20), 30)
    nodes = scheduler.cache.nodes
    for _ in range(3):
        assert scheduler.run(tokens(20), 30).cached_tokens == 19
        assert scheduler.cache.nodes <= nodes + 1, "the prompt is found up to its last token"
    assert scheduler.capacity()[1:] == (49, 0)


def test_a_request_that_has_run_before_is_told_of_but_not_counted_again() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20))
    again = msgspec.structs.replace(admit(0, tokens(20), 9), has_run=True, resume_token_ids=(7, 7, 7), attempt=2)
    with capture_logs() as logs:
        scheduler.step(admits=(again,))
        assert scheduler.slice(_0=2)[0].cached_tokens == 20
        scheduler.slice(_0=1)
    counters = scheduler.runner.counters()
    assert (counters.hit_tokens, counters.miss_tokens) == (0, 20)
    matched = [line for line in logs if line["event"] == "matched"]
    assert [(line["attempt"], line["cached_tokens"], line["uncached_tokens"]) for line in matched] == [(2, 20, 3)]


def test_nodes_have_the_highest_priority_of_their_requests() -> None:
    scheduler = Scheduler()
    scheduler.run(tokens(20), priority=1)
    scheduler.run(tokens(10), priority=3)
    scheduler.run(tokens(30), priority=2)
    assert [(depth, node.priority) for depth, node in scheduler.cache.walk()] == [(0, 3), (9, 3), (10, 2), (20, 2)]


def test_a_namespace_without_reuse_becomes_cheap() -> None:
    scheduler = Scheduler(capacity=20_000, vocab_size=5_000, reuse=Reuse())
    for first in range(20):
        scheduler.run([first, *range(100, 700)], namespace="a")
    assert (scheduler.result.cache.namespaces, scheduler.result.cache.cheap_namespaces) == (1, 1)
    assert scheduler.run([0, *range(100, 700)], namespace="b").cached_tokens == 0
    assert (scheduler.result.cache.namespaces, scheduler.result.cache.cheap_namespaces) == (2, 1)
    scheduler.runner.flush()
    scheduler.step()
    assert (scheduler.result.cache.namespaces, scheduler.result.cache.cheap_namespaces) == (0, 0)


# --- the end ---------------------------------------------------------------------------------------------------------


def test_end_of_sequence_stops_and_is_a_part_of_the_output() -> None:
    expected = continuation(tokens(20), 10)
    scheduler = Scheduler(eos=[expected[3]])
    run = scheduler.run(tokens(20), 10)
    assert run.output == tuple(expected[:4])
    assert (run.last.finish_reason, run.last.matched_stop) == ("stop", expected[3])


@pytest.mark.parametrize(
    ("sampling", "length", "reason"),
    [
        ({"ignore_eos": True}, 10, "length"),
        ({"stop_token_ids": "second", "ignore_eos": True}, 2, "stop"),
        ({"stop_token_ids": "eos", "ignore_eos": True}, 4, "stop"),
        ({"min_new_tokens": 3}, 4, "stop"),
    ],
)
def test_what_stops(sampling: dict[str, object], length: int, reason: str) -> None:
    expected = continuation(tokens(20), 10)
    named = {"second": (expected[1],), "eos": (expected[3],)}
    if "stop_token_ids" in sampling:
        sampling = sampling | {"stop_token_ids": named[str(sampling["stop_token_ids"])]}
    scheduler = Scheduler(eos=[expected[3]])
    run = scheduler.run(tokens(20), 10, sampling=wire.Sampling(seed=0, temperature=0.0, **sampling))  # type: ignore[arg-type]
    assert (run.output, run.last.finish_reason) == (tuple(expected[:length]), reason)


def test_a_prompt_that_ends_with_end_of_sequence_is_answered() -> None:
    assert Scheduler(eos=[7]).run([*tokens(10), 7]).output == tuple(continuation([*tokens(10), 7], 1))


def test_before_min_new_tokens_nothing_stops() -> None:
    expected = continuation(tokens(20), 10)
    scheduler = Scheduler(eos=[expected[3]])
    run = scheduler.run(tokens(20), 10, sampling=wire.Sampling(seed=0, temperature=0.0, min_new_tokens=5))
    assert len(run.output) > 4
    assert run.output[:3] == tuple(expected[:3])
    assert expected[3] not in run.output[:5]


@pytest.mark.parametrize(("resumed", "reason"), [(4, "stop"), (3, None), (10, "length")])
def test_finish_conditions_are_checked_on_resumed_tokens(resumed: int, reason: str | None) -> None:
    expected = continuation(tokens(20), 10)
    scheduler = Scheduler(eos=[expected[3]] if resumed < 10 else [])
    outcomes = scheduler.step(admits=(admit(0, tokens(20), 10, resume_token_ids=tuple(expected[:resumed])),))
    assert [outcome.finish_reason for outcome in outcomes.values()] == ([reason] if reason else [])
    assert scheduler.output.get(0, []) == []


def test_slices_of_a_lane_that_is_over_are_skipped_until_its_release() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(5)),))
    assert scheduler.slice(_0=5)[0].finish_reason == "length"
    assert scheduler.slice(_0=1, _9=1) == {}
    scheduler.output.clear()
    scheduler.last.clear()
    scheduler.step(release=(0,), admits=(admit(0, tokens(8), 2),))
    scheduler.finish(0)
    assert scheduler.output[0] == continuation(tokens(8), 2)


def test_a_lane_is_admitted_once() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(5)),))
    with pytest.raises(BrokenInvariant, match="lane 0 is admitted again"):
        scheduler.step(admits=(admit(0, tokens(5)),))


# --- cancels ---------------------------------------------------------------------------------------------------------


def test_a_cancelled_lane_gives_up_its_memory_at_once() -> None:
    scheduler = Scheduler(page_size=4)
    scheduler.step(admits=(admit(0, tokens(10), 5),))
    scheduler.slice(_0=10)
    scheduler.runner.cancel((0,))
    assert scheduler.capacity() == (992, 8, 0)
    assert scheduler.slice(_0=1) == {}
    scheduler.step(release=(0,), admits=(admit(0, tokens(10)),))
    assert scheduler.runner.waiting == 1


def test_a_cancel_may_come_before_its_admit() -> None:
    scheduler = Scheduler()
    scheduler.runner.cancel((3,))
    plan = {"admits": (admit(3, tokens(10)),), "slices": (wire.Slice(3, 10),)}
    assert scheduler.step(**plan) == {}
    assert scheduler.step(release=(3,), **plan)[3].new_token_ids


def test_a_release_ends_what_a_cancel_began() -> None:
    scheduler = Scheduler()
    scheduler.runner.cancel((3,))
    scheduler.step(release=(3, 4))
    scheduler.step(admits=(admit(3, tokens(10)), admit(4, tokens(10))))
    assert set(scheduler.slice(_3=1, _4=1)) == {3, 4}


def test_a_reset_releases_all_and_keeps_the_tree() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(10), 5), admit(1, tokens(10))))
    scheduler.slice(_0=10)
    scheduler.runner.cancel((7,))
    scheduler.runner.reset()
    assert scheduler.capacity() == (990, 10, 0)
    scheduler.step(admits=(admit(0, tokens(11)), admit(7, tokens(3))))
    outcomes = scheduler.slice(_0=1, _7=1)
    assert [outcomes[lane].cached_tokens for lane in (0, 7)] == [10, 2]


def test_the_log_tells_what_was_found_of_a_request_and_the_result_how_much_was_computed() -> None:
    scheduler = Scheduler()
    prompt = tokens(9)
    with capture_logs() as logs:
        scheduler.run(prompt, 2, 100)
        scheduler.step(admits=(admit(1, prompt, 2, attempt=3, trace_id="0af7651916cd43dd8448eb211c80319c"),))
        scheduler.slice(_1=100)
    first, second = [line for line in logs if line["event"] == "matched"]
    assert (first["cached_tokens"], first["uncached_tokens"], first["prompt_tokens"]) == (0, 9, 9)
    assert "trace_id" not in first
    assert (
        second.items()
        >= {
            "request_id": "request-1",
            "attempt": 3,
            "trace_id": "0af7651916cd43dd8448eb211c80319c",
            "cached_tokens": 8,
        }.items()
    )
    assert scheduler.result.computed_tokens == 1


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_fault_in_the_forward_pass_ends_the_request_that_caused_it() -> None:
    scheduler = Scheduler()
    scheduler.model.poison = 62
    prompts = {lane: [*tokens(10, start=lane), 62 if lane == 3 else 1] for lane in range(6)}
    scheduler.step(admits=tuple(admit(lane, prompt, 4) for lane, prompt in prompts.items()))
    with capture_logs() as logs:
        outcomes = scheduler.slice(**{f"_{lane}": 20 for lane in prompts})
    assert (outcomes[3].finish_reason, outcomes[3].error) == ("error", INTERNAL)
    (failed,) = [line for line in logs if line["event"] == "request_failed"]
    assert "poisoned" in failed["reason"]
    assert failed["request_id"] == "request-3"
    others = [lane for lane in prompts if lane != 3]
    scheduler.model.poison = None
    scheduler.finish(*others)
    assert [scheduler.output[lane] for lane in others] == [continuation(prompts[lane], 4) for lane in others]


@pytest.mark.parametrize("broken", ["state", "_tokens", "known", "sampling"])
def test_a_fault_in_one_lane_ends_that_request(broken: str) -> None:
    scheduler = Scheduler()
    scheduler.step(admits=tuple(admit(lane, tokens(10, start=lane), 4) for lane in range(3)))
    scheduler.slice(_0=5, _1=5, _2=5)
    setattr(scheduler.runner._lanes[1], broken, object())
    outcomes = scheduler.slice(_0=20, _1=20, _2=20)
    assert (outcomes[1].finish_reason, outcomes[1].error) == ("error", INTERNAL)
    scheduler.finish(0, 2)
    assert [scheduler.output[lane] for lane in (0, 2)] == [continuation(tokens(10, start=lane), 4) for lane in (0, 2)]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"constraint": wire.Constraint("regex", "a+")}, "unsupported"),
        ({"prompt": []}, "invalid_prompt"),
        ({"prompt": [1, 64]}, "invalid_token_id"),
        ({"prompt": [1, -1]}, "invalid_token_id"),
        ({"resume_token_ids": (99,)}, "invalid_token_id"),
        ({"prompt": tokens(90), "max_new_tokens": 11}, "context_length_exceeded"),
    ],
)
def test_what_cannot_run_here_ends_with_an_error(more: dict[str, object], code: str) -> None:
    scheduler = Scheduler(max_model_len=100)
    bad = admit(**({"lane": 0, "prompt": tokens(5)} | more))  # type: ignore[arg-type]
    outcomes = scheduler.step(admits=(bad, admit(1, tokens(5))), slices=(wire.Slice(0, 5), wire.Slice(1, 5)))
    assert outcomes[0].finish_reason == "error"
    assert outcomes[0].error is not None
    assert outcomes[0].error.code == code
    assert outcomes[1].new_token_ids
    scheduler.step(release=(0,), admits=(admit(0, tokens(5)),))


# --- log-probabilities -----------------------------------------------------------------------------------------------


def test_log_probabilities_come_with_their_tokens() -> None:
    scheduler = Scheduler()
    run = scheduler.run(tokens(10), sampling=wire.Sampling(seed=0, temperature=0.0, logprobs=True, top_logprobs=2))
    (logprob,) = run.last.logprobs
    assert logprob.token_id == run.output[0]
    assert logprob.logprob == pytest.approx(-np.log(1 + 63 * np.exp(-10)), abs=1e-6)
    assert len(logprob.top) == 2


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("position", [0, 1, 6, 9, 10])
def test_prompt_log_probabilities_from_a_position_on_whatever_is_cached(chunk: int, position: int) -> None:
    scheduler = Scheduler()
    prompt = tokens(10)
    scheduler.run(prompt)
    scheduler.step(admits=(admit(0, prompt, 3, sampling=wire.Sampling(seed=0, prompt_logprobs_from=position)),))
    found = []
    while 0 not in scheduler.last or scheduler.last[0].finish_reason is None:
        found.extend(scheduler.slice(_0=chunk)[0].prompt_logprobs)
    assert scheduler.last[0].cached_tokens == min(max(position - 1, 0), 9)
    assert [logprob.token_id for logprob in found] == list(prompt[position:])
    assert [logprob.logprob is None for logprob in found] == [place == 0 for place in range(position, 10)]


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_a_prompt_without_any_output_is_computed_for_others(chunk: int) -> None:
    scheduler = Scheduler()
    run = scheduler.run(tokens(10), 0, chunk=chunk)
    assert (run.last.finish_reason, list(run.output)) == ("length", [])
    assert scheduler.run([*tokens(10), 60]).last.cached_tokens == 10


def test_prompt_log_probabilities_without_any_output() -> None:
    scheduler = Scheduler()
    scheduler.step(admits=(admit(0, tokens(10), 0, sampling=wire.Sampling(seed=0, prompt_logprobs_from=1)),))
    outcome = scheduler.slice(_0=100)[0]
    assert (outcome.finish_reason, len(outcome.prompt_logprobs), outcome.new_token_ids) == ("length", 9, ())


# --- any plan --------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(data=st.data(), page_size=st.sampled_from([1, 4]), cached=st.booleans())
def test_any_plan_leaves_exact_accounts_and_right_tokens(data: st.DataObject, page_size: int, cached: bool) -> None:
    """Arbitrary slices, cancels and releases in a small pool; then everything that is left is finished, one by one."""
    scheduler = Scheduler(capacity=48, page_size=page_size, cached=cached, reuse=CheapFor("b"))
    prompts: dict[int, list[int]] = {}
    resumed: dict[int, list[int]] = {}
    namespaces: dict[int, str] = {}
    cancelled: set[int] = set()
    lane_numbers = st.integers(0, 5)
    for _ in range(data.draw(st.integers(1, 25))):
        free = [lane for lane in range(6) if lane not in prompts]
        admits = []
        if free and data.draw(st.booleans()):
            prompts[free[0]] = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=12))
            resumed[free[0]] = []
            scheduler.output.pop(free[0], None)
            scheduler.last.pop(free[0], None)
            namespaces[free[0]] = data.draw(st.sampled_from(["a", "b", "b/c"]))
            admits.append(admit(free[0], prompts[free[0]], 5, namespace=namespaces[free[0]]))
        slices = data.draw(st.lists(st.builds(wire.Slice, lane_numbers, st.integers(1, 8)), max_size=4))
        scheduler.step(admits=tuple(admits), slices=tuple(slices))
        if data.draw(st.booleans()):
            lane = data.draw(lane_numbers)
            if lane in prompts:
                cancelled.add(lane)
                scheduler.runner.cancel((lane,))
                scheduler.runner.check_integrity()
        for lane in data.draw(st.lists(st.sampled_from(list(prompts)), max_size=2, unique=True)) if prompts else []:
            last = scheduler.last.get(lane)
            give_way = last is None or last.finish_reason is None
            scheduler.step(release=(lane,))
            if give_way and lane not in cancelled:
                resumed[lane] += scheduler.output.pop(lane, [])
                again = admit(lane, prompts[lane], 5, namespace=namespaces[lane], resume_token_ids=tuple(resumed[lane]))
                scheduler.step(admits=(again,))
            else:
                assert lane in cancelled or resumed[lane] + scheduler.output[lane] == continuation(prompts[lane], 5)
                del prompts[lane]
                cancelled.discard(lane)
    scheduler.runner.reset()
    for lane in set(prompts) - cancelled:
        output = resumed[lane] + scheduler.output.get(lane, [])
        if scheduler.last.get(lane) is None or scheduler.last[lane].finish_reason is None:
            resume = {"resume_token_ids": tuple(output), "namespace": namespaces[lane]}
            output += scheduler.run(prompts[lane], 5, chunk=7, **resume).output
        assert output == continuation(prompts[lane], 5)
    assert scheduler.runner.capacity().pinned_tokens == 0
    scheduler.runner.flush()
    assert scheduler.capacity() == (48, 0, 0)
