"""Who gets how many tokens, who starts, who gives way: seen in the plans that reach the executor."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from services.scheduler import request
from services.scheduler.budget import SURE_CHUNK_TOKENS, CostModel
from services.scheduler.draft import Draft, Spread
from services.scheduler.lane import FRESH_FORCED_TOKENS, MORE_FORCED_TOKENS
from services.scheduler.placement import TAKE_OVER_S
from services.scheduler.planner import PATIENCE_PLANS
from shared import wire
from shared.tokens import pages_up
from tests.services.scheduler.hub import DETOKENIZER, EXECUTOR, GATEWAY, PROMPT, Hub, plain_prompt, submit
from tests.simulation.tokens import EOS, is_forced, token_at

LONG = plain_prompt(max_new_tokens=40, length=60)


def plans(hub, peer=EXECUTOR):
    return hub.take(peer, wire.StepPlan)


def slices(plan):
    return {s.lane: s.num_tokens for s in plan.slices}


def starts(hub, peer=EXECUTOR):
    """The requests that have been given their first slice, in order."""
    names, seen = {}, []
    for plan in plans(hub, peer):
        names.update({admit.lane: admit.request_id for admit in plan.admits})
        seen += [names[s.lane] for s in plan.slices if names[s.lane] not in seen]
    return seen


# --- a step's contents -----------------------------------------------------------------------------------------------


def test_prompts_and_decodes_share_a_step():
    hub = Hub(max_step_tokens=8).join_all()
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    hub.step(), hub.step(), plans(hub)
    hub.hear("tokenizer", submit("r2", prompt=LONG))
    hub.step()
    assert slices(plans(hub)[-1]) == {0: 1, 1: 8}


def test_a_long_prompt_is_a_run_of_chunks():
    hub = Hub(max_step_tokens=20).join_all()
    hub.hear("tokenizer", submit(prompt=LONG))
    for _ in range(3):
        hub.step()
    assert [slices(plan)[0] for plan in plans(hub)] == [20, 20, 20, 1, 1]


def test_a_short_prompt_does_not_wait_for_a_long_one():
    hub = Hub(max_step_tokens=20).join_all()
    hub.hear("tokenizer", submit("long", prompt=plain_prompt(max_new_tokens=40, length=200)))
    hub.step(), plans(hub)
    hub.hear("tokenizer", submit("short", prompt=range(9000, 9012)))
    hub.step()
    assert slices(plans(hub)[-1]) == {1: 12, 0: 8}


def test_a_prompt_of_about_the_same_length_waits_its_turn():
    hub = Hub(max_step_tokens=20).join_all()
    hub.hear("tokenizer", submit("first", prompt=plain_prompt(max_new_tokens=40, length=200)))
    hub.step(), plans(hub)
    hub.hear("tokenizer", submit("second", prompt=plain_prompt(max_new_tokens=41, length=150)))
    hub.step()
    assert slices(plans(hub)[-1]) == {0: 20}


def test_what_is_cached_is_not_paid_for_again():
    hub = Hub(max_step_tokens=20).join_all()
    hub.hear("tokenizer", submit("r1", prompt=LONG, max_new_tokens=1))
    hub.run(), plans(hub)
    hub.hear("tokenizer", submit("r2", prompt=LONG, max_new_tokens=2))
    hub.step()
    assert hub.updates()[-1].counts.cached_tokens == len(LONG) - 1


class SlowMachine(CostModel):
    """Knows for certain that a token takes 0.1 s."""

    def seconds(self, work):
        return 0.1 * work.tokens

    most_seconds = seconds

    def trusts(self, work):
        return True


class FastMachine(CostModel):
    """Knows for certain that everything is quick."""

    def seconds(self, work):
        return 1e-6 * work.tokens

    most_seconds = seconds

    def trusts(self, work):
        return True


def test_decodes_that_do_not_all_fit_take_turns():
    hub = Hub(step_budget_s=0.25).join_all()
    for number in range(4):
        hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT, max_new_tokens=30))
    while hub.core.progress().running < 4:
        hub.step()
    hub.core.executors[EXECUTOR].cost = SlowMachine(0.25)
    for _ in range(12):
        hub.step()
    turns = [set(slices(plan)) for plan in plans(hub)[-8:]]
    assert {len(turn) for turn in turns} == {2}
    assert [sum(lane in turn for turn in turns) for lane in range(4)] == [4, 4, 4, 4]


@pytest.mark.parametrize("late_runs", [True, False])
def test_a_prompt_crowded_out_by_decodes_gets_a_little_now_and_then_whether_it_runs_or_waits(late_runs):
    hub = Hub().join_all()
    for name in ("r1", "r2", "r3"):
        hub.hear("tokenizer", submit(name, prompt=PROMPT, max_new_tokens=40))
    while hub.core.progress().running < 3:
        hub.step()
    if late_runs:
        hub.hear("tokenizer", submit("late", prompt=LONG)), hub.step()
    hub.core.executors[EXECUTOR].cost = SlowMachine(0.25)
    hub.hear("tokenizer", submit("late", prompt=LONG)), plans(hub)
    for _ in range(4 * PATIENCE_PLANS):
        hub.step()
    sizes = [list(slices(plan).values()) for plan in plans(hub)]
    assert 2 <= sum(max(plan) > 1 for plan in sizes) <= 4
    assert max(max(plan) for plan in sizes) == SURE_CHUNK_TOKENS
    assert all(len(plan) == (1 if max(plan) > 1 else 2) for plan in sizes), "the other plans are for decodes"


def test_a_prompt_that_comes_after_long_decoding_gets_all_the_time_there_is():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    for _ in range(10):
        hub.step()
    plans(hub)
    hub.hear("tokenizer", submit("r2", prompt=LONG))
    hub.step()
    assert max(slices(plans(hub)[-1]).values()) > SURE_CHUNK_TOKENS


# --- who starts ------------------------------------------------------------------------------------------------------


def test_running_requests_are_bounded_by_the_configuration_and_by_the_executors_batch():
    for config, max_batch in ((2, 8), (8, 2)):
        hub = Hub(max_running_requests=config).join_all(max_batch=max_batch)
        for number in range(5):
            hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT, max_new_tokens=9))
        for _ in range(3):
            hub.step()
            assert hub.core.progress().running == 2


def test_lpm_starts_the_longest_cached_prefix_first():
    hub = Hub(policy="lpm", max_running_requests=1).join_all()
    hub.hear("tokenizer", submit("warm", prompt=LONG, max_new_tokens=1))
    hub.run()
    hub.hear("tokenizer", submit("first", prompt=PROMPT, max_new_tokens=8))
    hub.hear("tokenizer", submit("unrelated", prompt=plain_prompt(8, length=5)[::-1]))
    hub.hear("tokenizer", submit("related", prompt=(*LONG[:50], 7, 7)))
    hub.run()
    assert starts(hub) == ["warm", "first", "related", "unrelated"]


def test_fcfs_starts_in_the_order_of_arrival():
    hub = Hub(policy="fcfs", max_running_requests=1).join_all()
    for name, priority in (("a", 0), ("b", 0), ("c", 1)):
        hub.hear("tokenizer", submit(name, prompt=PROMPT, priority=priority))
    hub.run()
    assert starts(hub) == ["a", "b", "c"]


def test_a_higher_priority_starts_first():
    hub = Hub(max_running_requests=1).join_all()
    for name, priority in (("a", 0), ("b", 0), ("c", 1)):
        hub.hear("tokenizer", submit(name, prompt=PROMPT, priority=priority))
    hub.run()
    assert starts(hub) == ["a", "c", "b"]


def test_a_large_request_is_not_overtaken_by_small_ones_that_would_fit():
    hub = Hub(policy="fcfs").join_all(capacity_tokens=70)
    hub.hear("tokenizer", submit("a", prompt=PROMPT, max_new_tokens=20))
    hub.hear("tokenizer", submit("large", prompt=LONG))
    hub.hear("tokenizer", submit("small", prompt=PROMPT, max_new_tokens=2))
    hub.run()
    assert starts(hub) == ["a", "large", "small"]


def test_a_request_starts_beside_one_that_has_pinned_their_common_prefix():
    hub = Hub().join_all(capacity_tokens=100)
    for name, tail in (("a", 1), ("b", 2)):
        hub.hear("tokenizer", submit(name, prompt=(*LONG, tail), max_new_tokens=9))
    for _ in range(4):
        hub.step()
    assert hub.core.progress().running == 2


def test_another_namespace_shares_nothing():
    hub = Hub().join_all(capacity_tokens=100)
    for name, tail in (("a", 1), ("b", 2)):
        hub.hear("tokenizer", submit(name, prompt=(*LONG, tail), max_new_tokens=9, namespace=name))
    for _ in range(4):
        hub.step()
        assert hub.core.progress().running == 1


# --- tenants and priorities ------------------------------------------------------------------------------------------


def test_two_tenants_start_in_turns_however_many_one_of_them_sends():
    hub = Hub(max_running_requests=1, fair_quantum_tokens=16).join_all()
    for number in range(20):
        hub.hear("tokenizer", submit(f"flood{number}", prompt=range(number, number + 12), namespace="flood"))
    for number in range(5):
        prompt = range(500 + number, 512 + number)
        hub.hear("tokenizer", submit(f"other{number}", prompt=prompt, namespace="other/salted", priority=-5))
    hub.run()
    order = [name.rstrip("0123456789") for name in starts(hub)]
    assert max(index for index, tenant in enumerate(order) if tenant == "other") <= 12


def test_a_higher_priority_takes_the_place_of_a_lower_one_of_its_tenant():
    hub = Hub(max_running_requests=2).join_all()
    for name, priority in (("low", 0), ("middle", 1)):
        hub.hear("tokenizer", submit(name, prompt=PROMPT, max_new_tokens=40, priority=priority))
    for _ in range(6):
        hub.step()
    for name, prompt, priority, namespace in (("high", PROMPT[::-1], 2, ""), ("stranger", PROMPT, 9, "other")):
        hub.hear("tokenizer", submit(name, prompt=prompt, max_new_tokens=9, priority=priority, namespace=namespace))
        hub.step()
        running = {lane.request.submit.request_id for lane in hub.core.executors[EXECUTOR].running()}
        assert running == {"middle", "high"}
    hub.run()
    assert hub.preempted() == [("low", "priority"), ("middle", "tenant")]
    updates = hub.updates()
    for name, tokens in (("low", 40), ("middle", 40), ("high", 9), ("stranger", 9)):
        mine = [token for update in updates if update.request_id == name for token in update.token_ids]
        prompt = PROMPT[::-1] if name == "high" else PROMPT
        assert tuple(mine) == tuple(token_at(prompt, len(prompt) + at) for at in range(tokens))


def test_a_higher_priority_takes_the_room_of_a_lower_one():
    hub = Hub().join_all(capacity_tokens=100)
    hub.hear("tokenizer", submit("low", prompt=LONG, max_new_tokens=30))
    for _ in range(6):
        hub.step()
    hub.hear("tokenizer", submit("high", prompt=LONG[::-1], max_new_tokens=20, priority=1))
    hub.run()
    ends = [update.request_id for update in hub.updates() if update.finish_reason]
    assert ends == ["high", "low"]


def test_who_gave_way_does_not_come_back_by_the_express_pass():
    hub = Hub(max_running_requests=2, max_step_tokens=20).join_all(capacity_tokens=4000)
    hub.hear("tokenizer", submit("long", prompt=plain_prompt(max_new_tokens=4, length=2000)))
    hub.hear("tokenizer", submit("junior", prompt=range(7000, 7010), max_new_tokens=30))
    for _ in range(4):
        hub.step()
    assert hub.core.progress().running == 2
    hub.hear("tokenizer", submit("high", prompt=range(8000, 8600), max_new_tokens=1, priority=5))
    for _ in range(20):
        hub.step()
    made = plans(hub)
    admits = Counter(admit.request_id for plan in made for admit in plan.admits)
    assert admits == {"long": 1, "junior": 1, "high": 1}
    assert slices(made[-1]) == {1: 20}, "a higher priority does not wait for the prompt of a lower one"


def test_nobody_gives_way_to_one_that_waits_for_a_promise():
    hub = Hub(max_running_requests=2, max_step_tokens=20).join_all(capacity_tokens=4000)
    long = plain_prompt(max_new_tokens=4, length=400)
    hub.hear("tokenizer", submit("long", prompt=long))
    hub.hear("tokenizer", submit("junior", prompt=range(7000, 7010), max_new_tokens=30))
    for _ in range(4):
        hub.step()
    hub.hear("tokenizer", submit("high", prompt=(*long[:350], 1, 2, 3), max_new_tokens=1, priority=5))
    hub.step()
    assert {lane.request.submit.request_id for lane in hub.core.executors[EXECUTOR].running()} == {"long", "junior"}


def test_who_has_waited_for_the_bound_is_not_passed_by_a_cached_prefix_nor_by_a_short_prompt():
    hub = Hub(policy="lpm", max_running_requests=1, max_wait_s=5.0).join_all()
    hub.hear("tokenizer", submit("warm", prompt=LONG, max_new_tokens=1))
    hub.run()
    hub.hear("tokenizer", submit("first", prompt=PROMPT, max_new_tokens=8))
    hub.hear("tokenizer", submit("patient", prompt=range(3000, 3400), max_new_tokens=1))
    hub.tick(5.1)
    hub.hear("tokenizer", submit("related", prompt=(*LONG[:50], 7, 7)))
    hub.run()
    assert starts(hub) == ["warm", "first", "patient", "related"]


@pytest.mark.parametrize(("protected", "running"), [({"other": 16}, 1), ({"mine": 16}, 2), ({}, 2)])
def test_what_others_have_by_their_quota_is_no_room_unless_a_request_is_alone(protected, running):
    hub = Hub().join_all(capacity_tokens=40)
    hub.core.executors[EXECUTOR].capacity = wire.Capacity(24, 16, 0, protected)
    for name in ("a", "b"):
        hub.hear("tokenizer", submit(name, prompt=range(15), max_new_tokens=1, namespace=f"mine/{name}"))
    assert hub.core.progress().running == running


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 4])
def test_when_outputs_outgrow_the_room_the_newest_of_the_lowest_priority_gives_way(monkeypatch, page_size):
    monkeypatch.setattr(request, "GROWTH_TOKENS", 1)
    hub = Hub().join_all(capacity_tokens=64, page_size=page_size)
    for name, priority in (("low", 0), ("high", 1), ("new", 0)):
        prompt = plain_prompt(40, length=4)
        namespace = f"tenant/{name}"
        hub.hear("tokenizer", submit(name, prompt=prompt, max_new_tokens=40, priority=priority, namespace=namespace))
    hub.run()
    admits = Counter(admit.request_id for plan in plans(hub) for admit in plan.admits)
    assert admits["new"] > 1
    assert admits["high"] == 1
    assert set(hub.preempted()) == {("new", "kv"), ("low", "kv")}
    updates = hub.updates()
    for name in ("low", "high", "new"):
        mine = [update for update in updates if update.request_id == name]
        assert mine[-1].finish_reason == "length"
        assert sum(len(update.token_ids) for update in mine) == 40
        assert len({update.counts.cached_tokens for update in mine}) == 1, "what was cached counts when it first runs"


def test_a_prefix_that_was_pinned_by_one_that_has_ended_is_room_that_another_needs():
    hub = Hub().join_all(capacity_tokens=100)
    for name, tail in (("a", 1), ("b", 2)):
        hub.hear("tokenizer", submit(name, prompt=(*LONG, tail), max_new_tokens=9))
    view = hub.core.executors[EXECUTOR]
    while not any(flight.discounts for flight in view.flights):
        hub.step()
    (discount,) = (discount for flight in view.flights for discount in flight.discounts)
    before = view.room_tokens
    discount.lane.ended = True
    assert view.room_tokens == before - discount.tokens == before - len(LONG)
    discount.lane.ended = False


def test_a_request_as_large_as_the_pool_is_finished():
    hub = Hub().join_all(capacity_tokens=64)
    hub.hear("tokenizer", submit("full", prompt=LONG, max_new_tokens=100))
    hub.hear("tokenizer", submit("next", prompt=PROMPT))
    hub.run()
    ends = {update.request_id: update.finish_reason for update in hub.updates() if update.finish_reason}
    assert ends == {"full": "length", "next": "length"}


def test_a_slice_that_was_declined_is_tried_again_at_the_next_tick():
    hub = Hub().join_all()
    executor = hub.executors[EXECUTOR]
    executor.flakiness = 1.0
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.step(), hub.step()
    assert plans(hub)[-1] == wire.StepPlan(3, release=(0,))
    executor.flakiness = 0.0
    hub.step()
    hub.hear(GATEWAY, wire.Audit((wire.AuditEntry("r1", 1, settled=True),)))
    assert plans(hub) == []
    hub.tick()
    assert len(plans(hub)) == 2
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


# --- several executors -----------------------------------------------------------------------------------------------


def test_the_least_loaded_executor_gets_the_next_request():
    hub = Hub().join_all()
    hub.join_executor("executor-2")
    for name, prompt in (("r1", PROMPT), ("r2", PROMPT[::-1])):
        hub.hear("tokenizer", submit(name, prompt=prompt, max_new_tokens=9))
    assert [starts(hub, peer) for peer in (EXECUTOR, "executor-2")] == [["r1"], ["r2"]]


def test_a_request_goes_where_its_prefix_was_sent_before():
    hub = Hub().join_all()
    hub.join_executor("executor-2")
    prompts = {name: tuple(range(first, first + 200)) for name, first in (("a", 0), ("b", 1000), ("c", 2000))}
    for name in "abcabcabc":
        hub.hear("tokenizer", submit(f"{name}{hub.now_s}", prompt=(*prompts[name], 5), max_new_tokens=3))
        hub.tick()
    hub.run()
    found = [{name[0] for name in starts(hub, peer)} for peer in (EXECUTOR, "executor-2")]
    assert found[0] | found[1] == set("abc")
    assert not found[0] & found[1]


def test_a_prefix_does_not_count_against_an_overload():
    hub = Hub(balance_requests=3, max_running_requests=2).join_all()
    hub.join_executor("executor-2")
    for number in range(12):
        hub.hear("tokenizer", submit(f"r{number}", prompt=LONG, max_new_tokens=9))
    loads = [hub.core.executors[peer].load for peer in (EXECUTOR, "executor-2")]
    assert min(loads) >= 4


def test_an_idle_executor_takes_what_waits_at_another():
    hub = Hub(max_running_requests=1).join_all()
    for number in range(3):
        hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT, max_new_tokens=9))
    hub.step(), hub.step()
    assert hub.core.executors[EXECUTOR].waiting_requests == 2
    hub.join_executor("executor-2")
    assert starts(hub, "executor-2") == []
    hub.tick(TAKE_OVER_S + 0.1)
    assert starts(hub, "executor-2") == ["r2"]
    hub.run()
    assert len([update for update in hub.updates(DETOKENIZER) if update.finish_reason == "length"]) == 3


# --- tokens to spare for drafts --------------------------------------------------------------------------------------


def spare(hub):
    return [plan.spare_tokens for plan in plans(hub)]


def test_decodes_may_draft_within_time_and_prompts_may_not():
    hub = Hub().join_all(draft_tokens=6)
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    assert spare(hub) == [0, 6]
    hub.step()
    assert spare(hub) == [6]


def test_an_executor_that_drafts_nothing_is_given_nothing_to_spare():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    hub.step()
    assert spare(hub) == [0, 0, 0]


def test_a_slow_step_has_nothing_to_spare():
    hub = Hub(step_budget_s=0.01).join_all(draft_tokens=6)
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    hub.step()
    assert spare(hub) == [0, 0, 0]


@pytest.mark.parametrize(("page_size", "capacity_tokens", "tokens"), [(1, 48, 4), (4, 52, 4), (4, 48, 0)])
def test_what_is_spare_is_reserved_and_not_taken_from_what_will_be_wanted(page_size, capacity_tokens, tokens):
    hub = Hub().join_all(capacity_tokens=capacity_tokens, page_size=page_size, draft_tokens=6)
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    assert spare(hub) == [0, tokens]
    (executor,) = hub.core.executors.values()
    (lane,) = executor.running()
    assert executor.room_tokens == lane.outlook_tokens()


@given(
    page_size=st.sampled_from((1, 4, 16)),
    tokens=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    computed=st.lists(st.integers(0, 40), min_size=5, max_size=5),
)
def test_room_for_spare_tokens_is_room_however_they_are_divided(page_size, tokens, computed):
    spread = Spread(len(tokens), page_size)
    grown = [
        pages_up(begin + more, page_size) - pages_up(begin, page_size)
        for begin, more in zip(computed, tokens, strict=False)
    ]
    assert sum(grown) <= spread.room_for(sum(tokens))


@given(page_size=st.sampled_from((1, 4, 16)), lanes=st.integers(1, 5), room=st.integers(0, 300))
def test_as_many_tokens_are_spared_as_find_room(page_size, lanes, room):
    spread = Spread(lanes, page_size)
    most = spread.tokens_within(room)
    assert spread.room_for(most) <= room
    assert spread.room_for(most + 1) > room


def test_drafts_that_were_wrong_are_work_too(monkeypatch):
    seen = []
    monkeypatch.setattr(CostModel, "observe", lambda self, work, seconds: seen.append(work))
    hub = Hub().join_all(draft_tokens=6)
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=40))
    results = [hub.step() for _ in range(6)]
    drafted = [result.extra_tokens for result in results]
    assert sum(drafted)
    assert [work.tokens for work in seen] == [3, *(1 + count for count in drafted[1:])]


# --- tokens to spare for forced ones ---------------------------------------------------------------------------------

OUTPUT_TOKENS = 40
FRESH = FRESH_FORCED_TOKENS + MORE_FORCED_TOKENS


def forced_prompt(least, most=OUTPUT_TOKENS):
    """One of whose output so many tokens are forced, and that goes on to its limit."""
    positions = range(3, 3 + OUTPUT_TOKENS)
    for first in range(5000):
        prompt = tuple(range(first, first + 3))
        forced = sum(is_forced(prompt, at) for at in positions)
        if least <= forced <= most and EOS not in (token_at(prompt, at) for at in positions):
            return prompt
    raise AssertionError("the fake model forces too little or too much")


def constrained(name="r1", prompt=PROMPT, *, logprobs=False, **fields):
    constraint = wire.Constraint("regex", "a+")
    message = submit(name, prompt=prompt, max_new_tokens=OUTPUT_TOKENS, constraint=constraint, **fields)
    return structs.replace(message, sampling=wire.Sampling(seed=0, logprobs=logprobs))


def test_a_constrained_request_is_spared_some_tokens_and_others_are_not():
    hub = Hub().join_all(forced_tokens=32)
    hub.hear("tokenizer", submit("free", prompt=PROMPT, max_new_tokens=OUTPUT_TOKENS))
    assert spare(hub) == [0, 0]
    hub.hear("tokenizer", constrained()), hub.compile()
    hub.step()
    assert spare(hub) == [FRESH]


def test_an_executor_that_does_not_jump_is_given_nothing_to_spare():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained()), hub.compile()
    hub.step()
    assert spare(hub) == [0, 0, 0]


def test_many_constrained_requests_without_forced_tokens_reserve_little():
    hub = Hub(max_running_requests=64).join_all(capacity_tokens=20_000, max_batch=64, forced_tokens=32)
    hub.core.executors[EXECUTOR].cost = FastMachine(0.25)
    for number in range(64):
        hub.hear("tokenizer", constrained(f"r{number}", forced_prompt(least=0, most=0)))
    hub.compile()
    assert spare(hub) == [64 * FRESH] * 2
    for _ in range(30):
        hub.step()
    assert hub.core.progress().running == 64
    assert spare(hub)[-1] == 64 * MORE_FORCED_TOKENS


@pytest.mark.parametrize("logprobs", [False, True])
def test_forced_tokens_cost_hardly_any_step(logprobs):
    prompt = forced_prompt(least=20)
    steps = {}
    for forced_tokens in (0, 32):
        hub = Hub().join_all(forced_tokens=forced_tokens)
        hub.hear("tokenizer", constrained(prompt=prompt, logprobs=logprobs)), hub.compile()
        hub.run()
        steps[forced_tokens] = len([plan for plan in plans(hub) if plan.slices])
        tokens = [token for update in hub.updates() for token in update.token_ids]
        assert tokens == [token_at(prompt, at) for at in range(3, 3 + OUTPUT_TOKENS)]
    assert steps[0] == OUTPUT_TOKENS
    assert steps[32] <= OUTPUT_TOKENS - 20 + 2


def test_forced_tokens_do_not_wait_for_a_prompt_and_leave_it_time():
    hub = Hub(max_step_tokens=20).join_all(forced_tokens=32)
    prompt = forced_prompt(least=20)
    hub.hear("tokenizer", constrained(prompt=prompt)), hub.compile()
    hub.step(), hub.step(), plans(hub)
    hub.hear("tokenizer", submit("long", prompt=plain_prompt(max_new_tokens=40, length=400)))
    for _ in range(15):
        hub.step()
    made = plans(hub)
    assert all(0 in slices(plan) for plan in made[1:-1] if 0 not in plan.release)
    assert sum(slices(plan).get(1, 0) for plan in made) >= 12 * 20


def test_what_was_not_spared_is_a_longer_slice_of_a_decode(monkeypatch):
    monkeypatch.setattr(Draft, "_take_spare_tokens", lambda self: 0)
    hub = Hub(max_step_tokens=20).join_all(forced_tokens=32)
    hub.hear("tokenizer", constrained(prompt=forced_prompt(least=20))), hub.compile()
    hub.run()
    made = plans(hub)
    assert max(slices(plan).get(0, 0) for plan in made[1:]) > 1
    assert len(made) < OUTPUT_TOKENS


def test_tokens_beyond_a_slice_are_charged_once_they_are_computed():
    hub = Hub(fair_quantum_tokens=1000).join_all(forced_tokens=32)
    hub.core.requests.shares.enter("somebody else")
    prompt = forced_prompt(least=20)
    hub.hear("tokenizer", constrained(prompt=prompt)), hub.compile()
    hub.run()
    spent = 1000 - hub.core.requests.shares.balance("")
    assert len(prompt) + OUTPUT_TOKENS - 1 <= spent <= len(prompt) + OUTPUT_TOKENS + 2
