"""Suspects at the scheduler: with whom, where and how long they run after an executor has died."""

from services.scheduler.events import Note
from services.scheduler.trials import PATIENCE_S, TURN_S
from shared import wire
from shared.link import Received
from tests.services.scheduler.hub import DETOKENIZER, EXECUTOR, GATEWAY, HANG_TIMEOUT_S, Hub, submit
from tests.simulation.tokens import expected_output

TOKENS = 60
PROMPTS = [
    prompt
    for first in range(1000)
    if expected_output(prompt := tuple(range(first, first + 3)), TOKENS, stops_at_string=False)[1] == "length"
]
OTHER = PROMPTS[-1]


def ask(number, attempt=1):
    return submit(f"r{number}", attempt, prompt=PROMPTS[number], max_new_tokens=TOKENS)


def busy(count=4):
    """So many requests decode, two plans are in flight."""
    hub = Hub().join_all()
    for number in range(count):
        hub.hear("tokenizer", ask(number))
    hub.step(), hub.step()
    return hub


def die(hub, peer=EXECUTOR):
    """The executor dies, and the gateway submits again what is lost. Returns that."""
    hub.take(GATEWAY)
    hub.leave(peer)
    lost = hub.take(GATEWAY, wire.Lost)
    for each in lost:
        hub.hear(GATEWAY, ask(int(each.request_id[1:]), each.attempt + 1))
    return lost


def lanes_of(hub):
    return [lane for executor in hub.core.executors.values() for lane in executor.lanes.values()]


def steps(hub, peer, count):
    for _ in range(count):
        hub.step(peer), hub.tick(0.01)


def sliced(hub, peer=EXECUTOR):
    """The names of those in the plans that were sent since, plan by plan."""
    names, plans = {}, []
    for plan in hub.take(peer, wire.StepPlan):
        names |= {admit.lane: admit.request_id for admit in plan.admits}
        plans.append(sorted(names[piece.lane] for piece in plan.slices if piece.lane in names))
    return plans


def test_who_was_in_flight_is_lost_and_not_to_blame_for_it():
    lost = die(busy())
    assert [(each.request_id, each.attempt, each.excused) for each in lost] == [(f"r{n}", 1, True) for n in range(4)]


def test_they_run_again_in_halves_and_then_together():
    hub = busy()
    die(hub)
    hub.join_executor("executor-2")
    assert sliced(hub, "executor-2")[0] == ["r0", "r1"]
    steps(hub, "executor-2", 5)
    assert len(hub.core.requests.places.trials.suspects) == 2, "the first half is cleared, and the second one on trial"
    assert sliced(hub, "executor-2")[-1] == ["r2", "r3"]
    steps(hub, "executor-2", 8)
    assert not hub.core.requests.places.trials.is_busy
    assert hub.core.requests.running_count == 4


def test_only_the_one_that_dies_alone_twice_ends_and_the_others_finish():
    hub, deaths = busy(), 0
    hub.updates()
    poisoned = PROMPTS[2]
    for _ in range(10):
        deaths += 1
        die(hub, next(iter(hub.executors)))
        executor = hub.join_executor(f"executor-{deaths}")
        while executor.can_step() and not _is_next(executor, poisoned):
            hub.step(f"executor-{deaths}"), hub.tick(0.01)
        if not executor.can_step():
            break
    endings = {update.request_id: update for update in hub.updates() if update.finish_reason}
    assert endings["r2"].error.code == "poisoned_request"
    assert endings["r2"].error.status == 500
    assert {name: update.finish_reason for name, update in endings.items() if name != "r2"} == dict.fromkeys(
        ("r0", "r1", "r3"), "length"
    )
    assert deaths == 4, "4, 2, 1 and 1 were in flight"


def _is_next(executor, prompt):
    plan = executor.plans[0]
    admitted = {admit.lane for admit in plan.admits if admit.prompt_token_ids == prompt}
    known = {number for number, lane in executor.lanes.items() if lane.admit.prompt_token_ids == prompt}
    return any(piece.lane in admitted | known - set(plan.release) for piece in plan.slices)


def test_others_run_elsewhere_meanwhile_and_a_trial_waits_for_an_executor_with_nothing_to_do():
    hub = busy()
    hub.join_executor("executor-2")
    hub.hear("tokenizer", submit("other", prompt=OTHER, max_new_tokens=TOKENS))
    assert sliced(hub, "executor-2")[0] == ["other"]
    die(hub)
    hub.step("executor-2"), hub.tick()
    assert all(names == [] for names in sliced(hub, "executor-2")), "nobody new in its plans"
    hub.join_executor("executor-3")
    hub.hear("tokenizer", submit("late", prompt=OTHER, max_new_tokens=TOKENS))
    assert sliced(hub, "executor-3")[0] == ["r0", "r1"]
    hub.step("executor-2")
    assert ["late"] in sliced(hub, "executor-2")


def test_without_such_an_executor_it_takes_a_busy_one_after_a_while():
    hub = busy()
    hub.join_executor("executor-2")
    hub.hear("tokenizer", submit("other", prompt=OTHER, max_new_tokens=TOKENS))
    die(hub)
    hub.step("executor-2"), sliced(hub, "executor-2")
    hub.tick(PATIENCE_S)
    assert hub.core.requests.places.trials.host is hub.core.executors["executor-2"]
    assert hub.take("executor-2", wire.StepPlan) == [], "first the plans in flight end"
    hub.step("executor-2"), hub.step("executor-2")
    first, *_ = hub.take("executor-2", wire.StepPlan)
    assert len(first.release) == 1, "the other one has given way"
    assert hub.preempted() == [("other", "trial")]
    assert [admit.request_id for admit in first.admits] == ["r0", "r1"]


def test_who_gave_way_to_a_trial_and_starts_elsewhere_at_once_is_told_of_where_it_ran():
    hub = busy()
    for peer, name in (("executor-2", "other"), ("executor-3", "third")):
        hub.join_executor(peer)
        hub.hear("tokenizer", submit(name, prompt=OTHER, max_new_tokens=TOKENS))
    die(hub)
    hub.step("executor-2"), hub.step("executor-3")
    result = Received("executor-3", hub.executors["executor-3"].step())
    notes = [each for each in hub.core.handle(result, hub.now_s + PATIENCE_S) if isinstance(each, Note)]
    assert ("other", "executor-3") in [(lane.request.submit.request_id, lane.executor) for lane in lanes_of(hub)]
    assert [note.fields["executor"] for note in notes if note.event == "preempted"] == ["executor-2"]


def test_trials_and_others_take_turns_at_the_only_executor_and_longer_ones_each_time():
    hub = Hub(max_step_tokens=8).join_all(capacity_tokens=4000)
    hub.hear("tokenizer", submit("long", prompt=2000, max_new_tokens=1))
    hub.leave(EXECUTOR)
    hub.join_executor("executor-2", capacity_tokens=4000)
    trials, turns = hub.core.requests.places.trials, []
    trials.suspects.clear((GATEWAY, "long"))
    trials.suspects.died("executor-9", {(GATEWAY, "long"): 1500}, hub.now_s)
    hub.hear(GATEWAY, submit("long", 2, prompt=2000, max_new_tokens=1))
    hub.hear("tokenizer", submit("other", prompt=(5, 6, 7), max_new_tokens=2000))
    while trials.is_busy:
        hub.step("executor-2"), hub.tick(0.1)
        on_trial = trials.host is not None
        if not turns or turns[-1][0] != on_trial:
            turns.append([on_trial, 0.0])
        turns[-1][1] += 0.1
    assert [on_trial for on_trial, _ in turns[:4]] == [True, False, True, False]
    lengths = [seconds for _, seconds in turns[:4]]
    assert lengths[0] - TURN_S < 0.5
    assert abs(lengths[1] - lengths[0]) < 0.5
    assert abs(lengths[2] - 2 * lengths[0]) < 1.0
    assert abs(lengths[3] - lengths[2]) < 0.5


def test_an_executor_that_was_only_taken_for_dead_makes_no_suspects():
    hub = busy()
    executor = hub.executors[EXECUTOR]
    die(hub), sliced(hub)
    executor.reset()
    hub.executors[EXECUTOR] = executor
    hub.join(EXECUTOR, "executor", executor.info)
    hub.hear(EXECUTOR, executor.tree())
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress(step_age_s=HANG_TIMEOUT_S + 1)))
    assert len(hub.core.requests.places.trials.suspects) == 4, "it may hang"
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress()))
    assert not hub.core.requests.places.trials.is_busy
    assert sliced(hub)[0] == ["r0", "r1", "r2", "r3"]


def test_an_executor_that_hangs_tries_nobody():
    hub = busy()
    executor = hub.executors[EXECUTOR]
    die(hub)
    executor.reset()
    hub.executors[EXECUTOR] = executor
    hub.join(EXECUTOR, "executor", executor.info)
    assert hub.core.requests.places.trials.host is hub.core.executors[EXECUTOR]
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress(step_age_s=HANG_TIMEOUT_S + 1)))
    assert hub.core.requests.places.trials.host is None
    hub.join_executor("executor-2")
    assert sliced(hub, "executor-2")[0] == ["r0", "r1"]


def test_a_constraint_that_was_in_hand_is_suspected_too():
    hub = Hub().join_all()
    for number in range(2):
        constraint = wire.Constraint("regex", "ab"[number])
        hub.hear("tokenizer", submit(f"r{number}", prompt=OTHER, constraint=constraint))
    hub.leave(EXECUTOR)
    hub.join_executor("executor-2")
    assert len(hub.executors["executor-2"].grammars.asked) == 1
    hub.leave("executor-2")
    hub.join_executor("executor-3")
    assert [question.source for question in hub.executors["executor-3"].grammars.asked] == ["b"]
    hub.compile("executor-3"), hub.step("executor-3"), hub.step("executor-3")
    assert [question.source for question in hub.executors["executor-3"].grammars.asked] == ["a"]
    hub.leave("executor-3")
    (refused,) = hub.take(GATEWAY, wire.Rejected)
    assert (refused.request_id, refused.error.code) == ("r0", "poisoned_request")


def test_a_detokenizer_is_told_of_the_end():
    hub = busy(1)
    hub.updates()
    die(hub)
    hub.join_executor("executor-2")
    hub.step("executor-2")
    hub.leave("executor-2")
    (update,) = [update for update in hub.updates(DETOKENIZER) if update.finish_reason == "error"]
    assert update.error.code == "poisoned_request"
