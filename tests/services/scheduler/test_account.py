"""What is told of a request: in its counts, and in the lines of the log."""

import pytest

from services.scheduler.account import Account
from services.scheduler.events import Note
from shared import wire
from shared.link import Received
from tests.services.scheduler.hub import DETOKENIZER, EXECUTOR, GATEWAY, PROMPT, Hub, submit

COLOURS = wire.Constraint("choices", '["red", "green"]')
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


def test_waits_are_for_a_constraint_and_for_a_turn():
    account = Account()
    account.waits(10.0)
    account.compiled(12.0)
    account.starts(15.0)
    account.gives_way(16.0, has_begun=True)
    account.starts(20.0)
    account.starts(30.0)  # it does not wait any more
    assert (account.compile_s, account.queue_s, account.preemptions) == (2.0, 7.0, 1)


def test_who_gave_way_before_it_had_begun_was_not_preempted():
    account = Account()
    account.waits(0.0)
    account.gives_way(0.0, has_begun=False)
    assert account.preemptions == 0


def test_forced_tokens_add_up_over_lanes():
    account = Account()
    account.forces(3), account.forces(5), account.forces(5)
    account.gives_way(0.0, has_begun=True)
    account.forces(2)
    assert account.forced_tokens == 7


def notes(hub, event, at_s):
    return [command for command in hub.core.handle(event, at_s) if isinstance(command, Note)]


@pytest.fixture
def hub():
    hub = Hub().join_all()
    hub.executors.clear()  # its results are made here
    return hub


def result(seq, *outcomes):
    capacity = wire.Capacity(900, 0, 100)
    return Received(
        EXECUTOR, wire.StepResult(seq, outcomes, capacity, wire.CacheCounters(), wire.StageTimes(total_s=0.01))
    )


def test_a_request_tells_its_story_with_times_between_two_ticks(hub):
    start_s = hub.now_s
    asked = submit(prompt=PROMPT, constraint=COLOURS, trace_id=TRACE_ID)
    (accepted,) = notes(hub, Received(GATEWAY, asked), start_s + 1.0)
    assert accepted == Note(
        "accepted", {"request_id": "r1", "attempt": 1, "trace_id": TRACE_ID, "prompt_tokens": len(PROMPT)}
    )
    (executor,) = hub.core.executors.values()
    key = next(iter(executor.parking)).constraint_key
    notes(hub, Received(EXECUTOR, wire.Compiled(key, None, None)), start_s + 1.5)
    first = wire.Outcome(0, len(PROMPT), 2, new_token_ids=(7, 8), forced_tokens=1)
    (started,) = notes(hub, result(1, first), start_s + 1.75)
    assert started.event == "started"
    assert started.fields == {
        "request_id": "r1",
        "attempt": 1,
        "trace_id": TRACE_ID,
        "executor": EXECUTOR,
        "prompt_tokens": len(PROMPT),
        "cached_tokens": 2,
        "queue_s": 0.0,
        "compile_s": 0.5,
    }
    last = wire.Outcome(0, len(PROMPT) + 2, 2, new_token_ids=(9,), finish_reason="stop", forced_tokens=2)
    (finished,) = notes(hub, result(2, last), start_s + 2.0)
    assert finished.event == "finished"
    assert (
        finished.fields.items()
        >= {
            "reason": "stop",
            "output_tokens": 3,
            "computed_tokens": len(PROMPT),
            "forward_steps": 2,
            "forced_tokens": 2,
            "preemptions": 0,
        }.items()
    )


def test_who_is_refused_after_it_waited_is_told_how_long(hub):
    hub.core.handle(Received(GATEWAY, submit(prompt=PROMPT, constraint=COLOURS)), hub.now_s + 1.0)
    (executor,) = hub.core.executors.values()
    key = next(iter(executor.parking)).constraint_key
    error = wire.Error("no", "invalid_constraint")
    commands = hub.core.handle(Received(EXECUTOR, wire.Compiled(key, error, None)), hub.now_s + 1.25)
    (rejected,) = [command.message for command in commands if getattr(command, "peer", None) == GATEWAY]
    assert (rejected.error, rejected.counts.compile_s) == (error, 0.25)


def test_each_end_has_one_line(hub):
    hub.core.handle(Received(GATEWAY, submit(prompt=PROMPT)))
    hub.core.handle(result(1, wire.Outcome(0, len(PROMPT), 0, new_token_ids=(7,))))
    ends = notes(hub, Received(DETOKENIZER, wire.Abort("r1", 1, GATEWAY, "stop_string")), None)
    ends += notes(hub, Received(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client")), None)
    assert [(note.event, note.fields["reason"]) for note in ends] == [("finished", "stop_string")]
