"""The core's rules, one scene each."""

import pytest

from services.scheduler.ledger import DELIVERY_S
from services.scheduler.streams import LINGER_S
from shared import wire
from tests.services.scheduler.hub import DETOKENIZER, EXECUTOR, GATEWAY, HANG_TIMEOUT_S, PROMPT, Hub, submit
from tests.simulation.tokens import EOS, expected_output, token_at

# --- the ordinary course ---------------------------------------------------------------------------------------------


def test_a_lone_request_is_admitted_and_sliced_in_one_plan_and_the_next_plan_leaves_with_it():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    first, second = hub.take(EXECUTOR, wire.StepPlan)
    assert [admit.request_id for admit in first.admits] == ["r1"]
    assert first.slices == (wire.Slice(first.admits[0].lane, 3),)
    assert second.admits == ()
    assert second.slices == (wire.Slice(first.admits[0].lane, 1),)


def test_it_streams_to_its_end_and_its_lane_is_released():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, max_new_tokens=3))
    assert hub.take(GATEWAY) == [wire.Accepted("r1", 1, PROMPT, 3)]
    hub.run()
    updates = hub.updates()
    assert [update.offset for update in updates] == [0, 1, 2]
    assert [update.token_ids for update in updates] == [(token_at(PROMPT, at),) for at in (3, 4, 5)]
    assert [update.finish_reason for update in updates] == [None, None, "length"]
    assert hub.executors[EXECUTOR].lanes == {}
    assert hub.core.executors[EXECUTOR].room_tokens == 1000


def test_the_stream_is_opened_before_its_first_tokens():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, resume_token_ids=(7,), text_offset=2, attempt=2))
    hub.run()
    kinds = [type(message) for message in hub.take(DETOKENIZER)]
    assert kinds[0] is wire.Open
    assert wire.Open not in kinds[1:]


def test_at_most_two_plans_are_in_flight():
    hub = Hub().join_all()
    for number in range(5):
        hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT))
    assert len(hub.take(EXECUTOR, wire.StepPlan)) == 2
    hub.step()
    assert len(hub.take(EXECUTOR, wire.StepPlan)) == 1


def test_a_step_sends_one_batch_to_each_detokenizer():
    hub = Hub().join_all()
    hub.join("detokenizer-2")
    for number in range(4):
        hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT, max_new_tokens=9))
    hub.step(), hub.step(), hub.updates(), hub.updates("detokenizer-2")
    hub.step()
    for detokenizer in (DETOKENIZER, "detokenizer-2"):
        (batch,) = hub.take(detokenizer, wire.TokenBatch)
        assert len(batch.updates) == 2


def test_nothing_is_planned_for_an_output_that_has_reached_its_limit():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, max_new_tokens=1))
    assert len(hub.take(EXECUTOR, wire.StepPlan)) == 1


def test_cached_tokens_are_those_of_the_first_slice_and_never_more_than_the_prompt():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, max_new_tokens=3))
    hub.run(), hub.updates()
    output = tuple(expected_output(PROMPT, 2, stops_at_string=False)[0])
    hub.hear("tokenizer", submit("r2", attempt=2, prompt=PROMPT, max_new_tokens=3, resume_token_ids=output))
    hub.run()
    assert [update.counts for update in hub.updates()] == [wire.Counts(3, 3, EXECUTOR, forward_steps=1)]


def test_a_resumed_request_that_is_over_already_ends_at_its_admission():
    hub = Hub().join_all()
    hub.hear(GATEWAY, submit(attempt=2, prompt=PROMPT, resume_token_ids=(9, EOS)))
    hub.run()
    (update,) = hub.updates()
    assert (update.offset, update.token_ids, update.finish_reason) == (2, (), "stop")


def test_an_executors_error_ends_the_request_with_it():
    hub = Hub().join_all()
    hub.executors.clear()  # its results are made here
    hub.hear("tokenizer", submit(prompt=PROMPT))
    error = wire.Error("broken", "executor_error", status=500)
    outcome = wire.Outcome(0, 0, 0, finish_reason="error", error=error)
    capacity = wire.Capacity(1000, 0, 0)
    hub.hear(EXECUTOR, wire.StepResult(1, (outcome, outcome), capacity, wire.CacheCounters(), wire.StageTimes()))
    assert [(update.finish_reason, update.error) for update in hub.updates()] == [("error", error)]


# --- who waits for whom ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [DETOKENIZER, EXECUTOR])
def test_requests_wait_for_every_stage_behind_them(missing):
    hub = Hub()
    hub.join(GATEWAY)
    hub.join(DETOKENIZER) if missing != DETOKENIZER else hub.join_executor()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    assert hub.core.progress().waiting == 1
    hub.join(DETOKENIZER) if missing == DETOKENIZER else hub.join_executor()
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


def test_a_submit_for_a_gateway_that_is_not_here_is_left_to_its_audit():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(gateway="elsewhere"))
    assert hub.core.progress().waiting == hub.core.progress().running == 0


def test_an_executor_gets_no_plan_before_it_has_shown_that_it_moves():
    hub = Hub().join_all()
    hub.leave(EXECUTOR)
    hub.join(EXECUTOR, "executor", wire.ExecutorInfo("fake", 100, 1, 8, 4096))
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress(step_age_s=HANG_TIMEOUT_S + 1)))
    assert hub.take(EXECUTOR) == []
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress()))
    assert len(hub.take(EXECUTOR, wire.StepPlan)) == 2


# --- refusals --------------------------------------------------------------------------------------------------------


def rejection(hub):
    (message,) = hub.take(GATEWAY)
    assert isinstance(message, wire.Rejected)
    return message.error


def test_a_full_queue_refuses_with_429_but_not_what_was_taken_in_before():
    hub = Hub(max_queued_requests=2)
    hub.join(GATEWAY)
    hub.hear("tokenizer", submit("r1")), hub.hear("tokenizer", submit("r2")), hub.take(GATEWAY)
    hub.hear("tokenizer", submit("r3"))
    error = rejection(hub)
    assert (error.status, error.code) == (429, "overloaded")
    assert error.retry_after_s
    hub.hear("tokenizer", submit("r4", attempt=2))
    assert isinstance(hub.take(GATEWAY)[0], wire.Accepted)


def test_a_prompt_beyond_the_capacity_is_refused_and_a_long_output_is_clamped():
    hub = Hub().join_all(capacity_tokens=10)
    hub.hear("tokenizer", submit(prompt=10))
    error = rejection(hub)
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "prompt")
    hub.hear("tokenizer", submit("r2", prompt=7, max_new_tokens=100))
    assert hub.take(GATEWAY)[0].max_new_tokens == 3
    hub.run()
    assert hub.updates()[-1].finish_reason in ("length", "stop")


def test_requests_that_waited_for_an_executor_are_fitted_to_the_one_that_comes():
    hub = Hub()
    hub.join(GATEWAY), hub.join(DETOKENIZER)
    hub.hear("tokenizer", submit("large", prompt=30))
    hub.hear("tokenizer", submit("small", prompt=PROMPT, max_new_tokens=100)), hub.take(GATEWAY)
    hub.join_executor(capacity_tokens=20)
    assert rejection(hub).code == "context_length_exceeded"
    (first, *_) = hub.take(EXECUTOR, wire.StepPlan)
    assert [admit.max_new_tokens for admit in first.admits] == [17]


def test_requests_that_wait_are_fitted_to_the_executors_that_are_left():
    hub = Hub(max_running_requests=1).join_all(capacity_tokens=1000)
    hub.join_executor("executor-2", capacity_tokens=60)
    running = [submit(f"r{number}", prompt=PROMPT, max_new_tokens=40) for number in range(2)]
    for message in (*running, submit("large", prompt=60), submit("small", prompt=50, max_new_tokens=100)):
        hub.hear("tokenizer", message)
    hub.take(GATEWAY)
    hub.leave(EXECUTOR)
    refused = hub.take(GATEWAY, wire.Rejected)
    assert [(answer.request_id, answer.error.code) for answer in refused] == [("large", "context_length_exceeded")]
    hub.run()
    admits = [admit for plan in hub.take("executor-2", wire.StepPlan) for admit in plan.admits]
    assert [admit.max_new_tokens for admit in admits if admit.request_id == "small"] == [10]


def test_requests_wait_when_the_last_executor_leaves():
    hub = Hub(max_running_requests=1).join_all(capacity_tokens=1000)
    hub.hear("tokenizer", submit("r1", prompt=PROMPT)), hub.hear("tokenizer", submit("large", prompt=500))
    hub.take(GATEWAY)
    hub.leave(EXECUTOR)
    assert hub.take(GATEWAY, wire.Rejected) == []
    assert hub.core.progress().waiting == 1


def test_a_draining_scheduler_refuses_the_new_and_finishes_the_old():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT)), hub.take(GATEWAY)
    hub.hear(GATEWAY, wire.Admin("c1", "drain"))
    (reply,) = hub.take(GATEWAY)
    assert reply.payload["scheduler"]["draining"]
    hub.hear("tokenizer", submit("r2"))
    assert rejection(hub).status == 503
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


# --- deadlines -------------------------------------------------------------------------------------------------------


def test_a_deadline_that_has_passed_already_is_refused():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(time_left_s=-1))
    error = rejection(hub)
    assert (error.status, error.code) == (504, "deadline_exceeded")


def test_a_request_that_waits_beyond_its_deadline_is_rejected():
    hub = Hub()
    hub.join(GATEWAY)
    hub.hear("tokenizer", submit(time_left_s=1)), hub.take(GATEWAY)
    hub.tick(1.1)
    assert rejection(hub).code == "deadline_exceeded"


def test_a_request_that_runs_beyond_its_deadline_ends_its_stream_with_the_error():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, time_left_s=1))
    hub.step()
    hub.tick(1.1)
    assert hub.take(EXECUTOR, wire.Cancel) == [wire.Cancel((0,))]
    last = hub.updates()[-1]
    assert (last.offset, last.finish_reason, last.error.code) == (1, "error", "deadline_exceeded")
    assert hub.take(GATEWAY, wire.Rejected) == []


# --- aborts and attempts ---------------------------------------------------------------------------------------------


def test_an_abort_cancels_at_once_releases_in_the_next_plan_and_closes_the_stream():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.step(), hub.take(EXECUTOR)
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client"))
    assert hub.take(EXECUTOR) == [wire.Cancel((0,))]
    assert hub.updates()[-1].finish_reason == "abort"
    hub.step()
    assert hub.take(EXECUTOR) == [wire.StepPlan(4, release=(0,))]
    hub.run()
    assert hub.executors[EXECUTOR].lanes == {}


def test_the_abort_of_a_request_that_waits_needs_no_cancel():
    hub = Hub()
    hub.join(GATEWAY)
    hub.hear("tokenizer", submit())
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client"))
    assert hub.core.progress().waiting == 0


def test_an_abort_that_overtakes_its_submit_still_holds():
    hub = Hub().join_all()
    hub.hear(GATEWAY, wire.Abort("r1", 2, GATEWAY, "client"))
    hub.hear("tokenizer", submit(attempt=1)), hub.hear("tokenizer", submit(attempt=2))
    assert hub.take(GATEWAY) == []
    hub.hear("tokenizer", submit(attempt=3))
    assert isinstance(hub.take(GATEWAY)[0], wire.Accepted)


def test_an_abort_of_an_older_attempt_does_not_touch_the_newer_one():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(attempt=2, prompt=PROMPT))
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "stale"))
    assert hub.core.progress().running == 1


def test_a_later_attempt_keeps_its_place_in_the_queue_and_the_time_that_it_has_waited():
    hub = Hub(max_running_requests=1)
    hub.join(GATEWAY)
    for request_id in ("r1", "r2"):
        hub.hear("tokenizer", submit(request_id, prompt=PROMPT))
    arrived_s = hub.now_s
    hub.tick(5)
    hub.leave(GATEWAY), hub.join(GATEWAY)
    for request_id in ("r3", "r2", "r1"):
        hub.hear(GATEWAY, submit(request_id, attempt=1 if request_id == "r3" else 2, prompt=PROMPT))
    waiting = [
        (request.submit.request_id, request.arrived_s)
        for request in hub.core.requests.places.unrouted.candidates(hub.now_s)
    ]
    assert waiting == [("r1", arrived_s), ("r2", arrived_s), ("r3", arrived_s + 5)]


def test_requests_of_two_gateways_with_one_name_are_two_requests():
    hub = Hub().join_all()
    hub.join("gateway-2")
    hub.hear("tokenizer", submit(prompt=PROMPT)), hub.hear("tokenizer", submit(gateway="gateway-2", prompt=PROMPT))
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client"))
    hub.run()
    ends = {update.gateway: update.finish_reason for update in hub.updates()}
    assert ends == {GATEWAY: "abort", "gateway-2": "length"}


def test_a_newer_attempt_ends_the_older_and_a_stale_one_is_dropped():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(attempt=1, prompt=PROMPT))
    hub.hear(GATEWAY, submit(attempt=2, prompt=PROMPT))
    assert [accepted.attempt for accepted in hub.take(GATEWAY)] == [1, 2]
    hub.hear("tokenizer", submit(attempt=1)), hub.hear("tokenizer", submit(attempt=2))
    assert hub.take(GATEWAY) == []
    hub.run()
    ends = [(update.attempt, update.finish_reason) for update in hub.updates() if update.finish_reason]
    assert ends == [(1, "abort"), (2, "length")]


def test_an_outcome_for_a_lane_of_an_earlier_request_is_not_taken_for_the_new_one():
    hub = Hub().join_all(capacity_tokens=20, max_batch=1)
    executor = hub.executors[EXECUTOR]
    hub.hear("tokenizer", submit("r1", prompt=PROMPT, max_new_tokens=9))
    hub.hear("tokenizer", submit("r2", prompt=PROMPT, max_new_tokens=9))
    hub.step(), hub.updates()
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client")), hub.updates()
    hub.step()
    late = executor.lanes[0].admit.request_id
    hub.step()
    assert late == "r1"
    assert {update.request_id for update in hub.updates()} <= {"r2"}


# --- the detokenizer speaks ------------------------------------------------------------------------------------------


def test_a_stop_string_ends_the_request_without_another_terminal():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT, max_new_tokens=9))
    hub.step(), hub.updates(), hub.take(EXECUTOR)
    hub.hear(DETOKENIZER, wire.Abort("r1", 1, GATEWAY, "stop_string"))
    assert hub.take(EXECUTOR) == [wire.Cancel((0,))]
    hub.run()
    assert hub.updates() == []
    assert hub.take(GATEWAY, wire.Lost) == []


@pytest.mark.parametrize(
    ("reason", "words"),
    [("stale", "its detokenizer has no state for it"), ("gateway_gone", "its detokenizer has no link to its gateway")],
)
def test_a_detokenizer_without_state_for_a_request_makes_it_lost(reason, words):
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.hear(DETOKENIZER, wire.Abort("r1", 1, GATEWAY, reason))
    assert [(lost.attempt, lost.reason) for lost in hub.take(GATEWAY, wire.Lost)] == [(1, words)]
    assert hub.updates() == []


def test_a_detokenizer_cannot_end_what_another_one_streams():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.join("detokenizer-2")
    hub.hear("detokenizer-2", wire.Abort("r1", 1, GATEWAY, "stop_string"))
    assert hub.core.progress().running == 1


# --- peers go --------------------------------------------------------------------------------------------------------


def test_an_executors_death_loses_what_ran_and_moves_what_waited():
    hub = Hub(max_running_requests=1).join_all()
    hub.hear("tokenizer", submit("r1", prompt=PROMPT)), hub.hear("tokenizer", submit("r2", prompt=PROMPT))
    hub.step(), hub.step()
    assert hub.core.executors[EXECUTOR].waiting_requests == 1
    hub.leave(EXECUTOR)
    assert [lost.request_id for lost in hub.take(GATEWAY, wire.Lost)] == ["r1"]
    hub.updates()
    hub.join_executor("executor-2")
    hub.run()
    assert [update.request_id for update in hub.updates() if update.finish_reason] == ["r2"]


def test_a_lost_streams_end_reaches_the_detokenizer_only_when_the_gateway_has_moved_on():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.step(), hub.updates()
    hub.leave(EXECUTOR)
    hub.hear(GATEWAY, wire.Audit((wire.AuditEntry("r1", 1, settled=False),)))
    assert hub.updates() == []
    hub.hear(GATEWAY, submit(attempt=2, prompt=PROMPT))
    assert [(update.attempt, update.finish_reason) for update in hub.updates()] == [(1, "abort")]


@pytest.mark.parametrize(
    "word",
    [wire.Audit(()), wire.Audit((wire.AuditEntry("r1", 2, settled=False),)), wire.Abort("r1", 1, GATEWAY, "client")],
)
def test_whatever_shows_that_the_gateway_has_moved_on_closes_the_lost_stream(word):
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.leave(EXECUTOR)
    hub.hear(GATEWAY, word)
    assert [(update.attempt, update.finish_reason) for update in hub.updates()] == [(1, "abort")]
    assert hub.core.requests.streams.lingering == []


def test_a_detokenizers_death_loses_what_ran_there_and_nothing_else():
    hub = Hub(max_running_requests=2).join_all()
    hub.join("detokenizer-2")
    for number in range(4):
        hub.hear("tokenizer", submit(f"r{number}", prompt=PROMPT))
    hub.step(), hub.step()
    hub.leave(DETOKENIZER)
    (lost,) = hub.take(GATEWAY, wire.Lost)
    hub.run()
    ended = {update.request_id for update in hub.updates("detokenizer-2") if update.finish_reason}
    assert ended == {"r0", "r1", "r2", "r3"} - {lost.request_id}


def test_a_gateways_broken_link_ends_its_requests_without_ending_its_streams():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.step(), hub.updates()
    hub.leave(GATEWAY)
    assert hub.take(EXECUTOR, wire.Cancel) == [wire.Cancel((0,))]
    hub.join(GATEWAY)
    hub.hear(GATEWAY, submit(attempt=2, prompt=PROMPT))
    hub.run()
    ends = [(update.attempt, update.finish_reason) for update in hub.updates() if update.finish_reason]
    assert ends == [(1, "abort"), (2, "length")]


def test_the_streams_of_a_gateway_that_stays_away_are_closed_in_the_end():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.leave(GATEWAY)
    hub.tick(LINGER_S - 1)
    assert hub.updates() == []
    hub.tick(2)
    assert [update.finish_reason for update in hub.updates()] == ["abort"]


def test_a_step_that_does_not_end_costs_the_executor_its_link():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.hear(EXECUTOR, wire.Heartbeat(wire.Progress(step_age_s=HANG_TIMEOUT_S + 1)))
    hub.tick()
    assert hub.dropped == [EXECUTOR]
    assert len(hub.take(GATEWAY, wire.Lost)) == 1
    hub.leave(EXECUTOR)
    assert hub.dropped == [EXECUTOR]


def test_a_plan_or_result_that_got_lost_costs_the_executor_its_link():
    hub = Hub().join_all()
    hub.tick(HANG_TIMEOUT_S * 2)
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.tick(HANG_TIMEOUT_S - 1)
    assert hub.dropped == []
    hub.tick(2)
    assert hub.dropped == [EXECUTOR]


def test_a_result_out_of_order_costs_the_executor_its_link():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.executors[EXECUTOR].step()
    second = hub.executors[EXECUTOR].step()
    hub.hear(EXECUTOR, second)
    assert hub.dropped == [EXECUTOR]
    hub.hear(EXECUTOR, second)
    assert hub.dropped == [EXECUTOR]


def test_an_executor_that_does_not_say_what_it_has_is_dropped():
    hub = Hub()
    hub.join(EXECUTOR)
    assert hub.dropped == [EXECUTOR]


# --- audits ----------------------------------------------------------------------------------------------------------


def audit(*entries):
    return wire.Audit(tuple(wire.AuditEntry(*entry) for entry in entries))


def test_an_unknown_request_is_lost_once_it_must_be_known():
    hub = Hub().join_all()
    hub.hear(GATEWAY, audit(("r1", 1, False)))
    assert hub.take(GATEWAY) == []
    hub.hear(GATEWAY, audit(("r1", 1, True)))
    assert [lost.attempt for lost in hub.take(GATEWAY)] == [1]
    hub.hear("tokenizer", submit(attempt=1))
    assert hub.take(GATEWAY) == [], "the late submit of the lost attempt is stale"


def test_a_known_request_is_not_lost_and_an_overtaken_entry_is_ignored():
    hub = Hub().join_all()
    hub.hear(GATEWAY, submit(attempt=2, prompt=PROMPT)), hub.take(GATEWAY)
    hub.hear(GATEWAY, audit(("r1", 2, True))), hub.hear(GATEWAY, audit(("r1", 1, True)))
    assert hub.take(GATEWAY) == []


def test_what_the_gateway_does_not_list_twice_in_a_row_is_aborted():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    for held in (False, True, False):
        hub.hear(GATEWAY, audit(("r1", 1, False)) if held else audit())
        assert hub.core.progress().running == 1
    hub.hear(GATEWAY, audit())
    assert hub.core.progress().running == 0


def test_an_ending_on_its_way_through_the_detokenizer_is_not_lost_until_it_must_have_arrived():
    hub = Hub().join_all()
    hub.hear("tokenizer", submit(prompt=PROMPT))
    hub.run(), hub.take(GATEWAY)
    hub.hear(GATEWAY, audit(("r1", 1, True)))
    assert hub.take(GATEWAY) == []
    hub.tick(DELIVERY_S + 0.1)
    hub.hear(GATEWAY, audit(("r1", 1, True)))
    assert [lost.attempt for lost in hub.take(GATEWAY)] == [1]


# --- who may speak for whom ------------------------------------------------------------------------------------------


def test_a_gateway_speaks_for_itself_alone():
    hub = Hub().join_all()
    hub.join("gateway-2", "gateway")
    hub.hear("tokenizer", submit(prompt=PROMPT, max_new_tokens=9))
    hub.hear("gateway-2", submit("r2", prompt=PROMPT))
    hub.hear("gateway-2", wire.Abort("r1", 1, GATEWAY, "client"))
    assert [accepted.request_id for accepted in hub.take(GATEWAY, wire.Accepted)] == ["r1"]
    assert hub.core.requests.ledger.open.keys() == {(GATEWAY, "r1")}
