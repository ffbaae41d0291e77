from services.scheduler.events import Send
from services.scheduler.step_log import StepLog
from shared import wire
from shared.link import Received

NOW = wire.Progress(waiting=4, running=3)
PLAN = Send("executor", wire.StepPlan(1, slices=(wire.Slice(0, 10), wire.Slice(1, 1))))
RESULT = Received(
    "executor",
    wire.StepResult(
        1, (), wire.Capacity(1, 0, 0), wire.CacheCounters(), wire.StageTimes(), extra_tokens=2, computed_tokens=13
    ),
)


def test_a_line_tells_of_the_plans_since_the_last_one():
    log = StepLog(1.0)
    log.note(RESULT, [PLAN], 0.002)
    log.note(RESULT, [], 9.0)  # no plan, so its time is nobody's
    log.note(RESULT, [PLAN], 0.004)
    assert log.due(5.0, lambda: NOW) == {
        "batch": 2.0,
        "tokens": 11.0,
        "running": 3,
        "waiting": 4,
        "plan_s": 0.003,
        "plans": 2,
        "steps": 3,
        "computed_tokens": 39,
    }
    log.note(RESULT, [PLAN], 0.002)
    assert log.due(5.9, lambda: NOW) is None  # too early
    assert log.due(6.0, lambda: NOW)["plans"] == 1


def test_it_goes_on_while_somebody_waits_and_says_when_nobody_does_any_more():
    log = StepLog(1.0)
    nothing = {"plans": 0, "steps": 0, "computed_tokens": 0}
    assert log.due(5.0, lambda: wire.Progress(waiting=4)) == {"running": 0, "waiting": 4, **nothing}
    assert log.due(5.9, lambda: wire.Progress(waiting=4)) is None
    assert log.due(6.0, wire.Progress) == {"running": 0, "waiting": 0, **nothing}
    assert log.due(7.0, wire.Progress) is None


def test_there_is_none_while_nothing_happens():
    log = StepLog(1.0)
    assert log.due(5.0, wire.Progress) is None
