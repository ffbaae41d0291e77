"""Who is held back for what another one computes, how long, and that it goes on whatever becomes of the other one."""

import pytest

from services.scheduler.lane import Lane
from services.scheduler.promises import LEAST_PROMISE_TOKENS, PATIENCE_DECLINES, Promises
from services.scheduler.request import Request
from shared import wire
from tests.services.scheduler.hub import EXECUTOR, GATEWAY, Hub, submit

HEAD = tuple(range(5000, 5200))
TAIL = 8
LONG = (*HEAD, *range(20_000, 22_000))
SIXTEEN = [(*HEAD, *range(number, number + TAIL)) for number in range(100, 1700, 100)]


def starts(hub):
    """The requests by the plan in which they have started."""
    return {admit.request_id: plan.seq for plan in hub.take(EXECUTOR, wire.StepPlan) for admit in plan.admits}


def result(seq, *outcomes):
    return wire.StepResult(seq, outcomes, wire.Capacity(7900, 0, 100), wire.CacheCounters(), wire.StageTimes(0.01))


def computed_tokens(hub, steps=200):
    """Prompt tokens that the executor computes until nothing is left to do."""
    total, before = 0, {}
    executor = hub.executors[EXECUTOR]
    for _ in range(steps):
        if not executor.can_step():
            hub.tick()
            if not executor.can_step():
                return total
        result = executor.step()
        for outcome in result.outcomes:
            known = before.get(outcome.lane)
            start = outcome.cached_tokens if known is None else known
            total += outcome.computed_tokens - start
            before[outcome.lane] = outcome.computed_tokens
            if outcome.finish_reason:
                del before[outcome.lane]
        hub.hear(EXECUTOR, result)
    raise AssertionError("it goes on and on")


@pytest.mark.parametrize("page_size", [1, 16])
def test_sixteen_with_one_new_prefix_compute_it_once(page_size):
    hub = Hub(max_step_tokens=48, max_running_requests=16).join_all(
        page_size=page_size, capacity_tokens=8000, max_batch=16
    )
    for number, prompt in enumerate(SIXTEEN):
        hub.hear("tokenizer", submit(f"r{number}", prompt=prompt, max_new_tokens=1))
    shared = len(HEAD) // page_size * page_size
    assert computed_tokens(hub) <= shared + 16 * (len(SIXTEEN[0]) - shared)


def test_those_held_back_hold_nothing_and_start_as_soon_as_they_can_find_it():
    hub = Hub(max_step_tokens=80, max_running_requests=17).join_all(capacity_tokens=8000, max_batch=17)
    for number, prompt in enumerate((LONG, *SIXTEEN)):
        hub.hear("tokenizer", submit(f"r{number}", prompt=prompt, max_new_tokens=9))
    hub.step()
    executor = hub.core.executors[EXECUTOR]
    while len(executor.promises) == 16:
        assert hub.core.progress().running == 1
        before = sum(executor.lanes[0].in_flight[at].num_tokens for at in (0, 1)) + executor.lanes[0].computed_tokens
        hub.step()
    assert before >= len(HEAD) - LEAST_PROMISE_TOKENS
    assert hub.core.progress().running > 2


def test_another_namespace_is_not_held_back():
    hub = Hub(max_step_tokens=100).join_all(capacity_tokens=8000)
    hub.hear("tokenizer", submit("r1", prompt=LONG, max_new_tokens=9))
    hub.hear("tokenizer", submit("r2", prompt=SIXTEEN[1], max_new_tokens=9, namespace="other"))
    hub.step()
    assert hub.core.progress().running == 2


def test_nobody_is_held_back_where_nothing_is_cached():
    hub = Hub(max_step_tokens=100)
    hub.join("gateway"), hub.join("detokenizer")
    hub.join("executor", "executor", wire.ExecutorInfo("fake", 8000, 1, 8, 4096, caches=False))
    hub.hear("executor", wire.Heartbeat(wire.Progress()))
    for number, prompt in enumerate((LONG, SIXTEEN[0])):
        hub.hear("tokenizer", submit(f"r{number}", prompt=prompt, max_new_tokens=9))
    hub.hear("executor", result(1, wire.Outcome(0, 100, 0)))
    assert hub.core.progress().running == 2


def test_a_few_tokens_are_not_worth_waiting_for():
    hub = Hub(max_step_tokens=1000).join_all(capacity_tokens=8000)
    head = HEAD[: LEAST_PROMISE_TOKENS - 1]
    hub.hear("tokenizer", submit("r1", prompt=(*head, *range(300)), max_new_tokens=9))
    hub.hear("tokenizer", submit("r2", prompt=(*head, *range(500, 520)), max_new_tokens=9))
    hub.step()
    assert hub.core.progress().running == 2


# --- what becomes of the one that promised ----------------------------------------------------------------------------


@pytest.fixture(params=[1, 16], ids=["pages of 1", "pages of 16"])
def waiting(request):
    """One computes, two of different priorities wait for it."""
    hub = Hub(max_step_tokens=32, max_running_requests=4, step_budget_s=0.25)
    hub.join_all(page_size=request.param, capacity_tokens=4000)
    hub.hear("tokenizer", submit("first", prompt=LONG, max_new_tokens=9))
    for name, tail, priority in (("second", 2, 0), ("third", 3, 1)):
        prompt = prompt_behind(HEAD, tail)
        hub.hear("tokenizer", submit(name, prompt=prompt, max_new_tokens=9, priority=priority))
    hub.step()
    assert len(hub.core.executors[EXECUTOR].promises) == 2
    assert set(starts(hub)) == {"first"}
    return hub


def prompt_behind(head, tail):
    return (*head, *(1000 * tail + number for number in range(TAIL)))


def all_end(hub, names):
    for _ in range(30):
        hub.run(), hub.tick()
    ends = {update.request_id: update.finish_reason for update in hub.updates() if update.finish_reason}
    assert {ends.get(name) for name in names} <= {"stop", "length"}, ends
    assert not hub.core.executors[EXECUTOR].promises
    assert hub.core.progress().waiting == hub.core.progress().running == 0


def test_it_ends(waiting):
    all_end(waiting, ("first", "second", "third"))


def test_it_is_aborted(waiting):
    waiting.hear(GATEWAY, wire.Abort("first", 1, GATEWAY, "client"))
    waiting.step(), waiting.step()
    assert "third" in starts(waiting), "the highest of them computes it in its stead"
    all_end(waiting, ("second", "third"))


def test_it_gives_way(waiting):
    executor = waiting.core.executors[EXECUTOR]
    (lane,) = executor.running()
    executor.put_back(lane.request)
    waiting.step(), waiting.step()
    assert "third" in starts(waiting)
    all_end(waiting, ("first", "second", "third"))


def test_it_dies_with_its_executor(waiting):
    waiting.leave(EXECUTOR)
    assert [lost.request_id for lost in waiting.take(GATEWAY, wire.Lost)] == ["first"]
    waiting.join_executor()
    all_end(waiting, ("second", "third"))


def test_it_is_declined_again_and_again(waiting):
    waiting.executors[EXECUTOR].flakiness = 1.0
    for _ in range(PATIENCE_DECLINES - 1):
        assert len(waiting.core.executors[EXECUTOR].promises) == 2
        waiting.step(), waiting.tick()
    waiting.step(), waiting.tick()
    assert "third" in starts(waiting)
    waiting.executors[EXECUTOR].flakiness = 0.0
    all_end(waiting, ("first", "second", "third"))


def test_it_is_starved(waiting):
    executor = waiting.core.executors[EXECUTOR]
    (lane,) = executor.running()
    now_s = waiting.now_s
    assert executor.promises.release(executor.next_seq, now_s + 100) == [], "its slices are under way"
    lane.in_flight.clear()
    assert executor.promises.release(executor.next_seq, now_s + 0.9) == []
    released = executor.promises.release(executor.next_seq, now_s + 1.1)
    assert {one.submit.request_id for one in released} == {"second", "third"}
    prospect = executor.promises.prospect(released[0], [lane], executor.next_seq, now_s + 1.1)
    assert prospect.promise is None, "it promises nothing until it is served again"


def test_it_has_the_priority_of_those_that_wait_for_it(waiting):
    (lane,) = waiting.core.executors[EXECUTOR].running()
    assert lane.priority == 1
    waiting.hear(GATEWAY, wire.Abort("third", 1, GATEWAY, "client"))
    assert lane.priority == 0


def test_a_deadline_ends_one_that_is_held_back(waiting):
    waiting.hear("tokenizer", submit("late", prompt=prompt_behind(HEAD, 4), time_left_s=1))
    waiting.step()
    assert len(waiting.core.executors[EXECUTOR].promises) == 3
    waiting.tick(1.1)
    assert [answer.request_id for answer in waiting.take(GATEWAY, wire.Rejected)] == ["late"]


# --- the part alone ---------------------------------------------------------------------------------------------------


def request(number, tokens, priority=0):
    return Request(submit(f"r{number}", prompt=tokens, priority=priority), number, 0.0, 4)


def test_thousands_held_back_go_on_in_the_order_of_what_they_wait_for():
    lane = Lane(0, "executor", request(0, HEAD), 1, 1, 0)
    lane.plan(1, 40, 0.0)
    promises = Promises(patience_s=1.0)
    waiters = [request(number, (*HEAD[: 40 + number % 150], 7, 7)) for number in range(1, 3000)]
    for waiter in waiters:
        prospect = promises.prospect(waiter, [lane], 1, 0.0)
        assert prospect.found_tokens == 0
        promises.hold(waiter, prospect.promise)
    assert {*promises.release(2, 0.0)} == {w for w in waiters if len(w.tokens) - 2 - 40 < LEAST_PROMISE_TOKENS}
    lane.ended = True
    assert promises.release(2, 0.0)
    assert len(promises) == 0
    assert lane.lent_priority is None
