"""Faults planted in the core, by name, and what the simulation says of each. They show that it can fail."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from services.scheduler import draft, executors, integrity, planner
from services.scheduler.executors import Executor
from services.scheduler.ledger import Ledger
from services.scheduler.parking import Parking
from services.scheduler.placement import Placement
from services.scheduler.prefix_index import PrefixIndex
from services.scheduler.promises import Promises
from services.scheduler.request import Request
from services.scheduler.requests import Requests
from services.scheduler.streams import Streams
from services.scheduler.suspects import Suspects
from services.scheduler.trials import Trials
from shared import wire


@dataclass(frozen=True)
class Mutant:
    plant: Callable[[pytest.MonkeyPatch], None]
    complaint: str  # a pattern

    @property
    def name(self) -> str:
        return self.plant.__name__


def room_forgets_the_plans_in_flight(patch):
    patch.setattr(Executor, "room_tokens", property(lambda self: self.capacity_tokens - self.capacity.pinned_tokens))


def a_start_reserves_only_what_it_computes(patch):
    honest = planner.Draft.start

    def start(self, request, found, tokens, reserved):
        return honest(self, request, found, tokens, planner.Reservation(tokens))

    patch.setattr(planner.Draft, "start", start)


def spare_tokens_are_not_reserved(patch):
    honest = planner.Draft._take_spare_tokens

    def take(self):
        reserved = self._reserved_tokens
        spare_tokens = honest(self)
        self._reserved_tokens = reserved
        return spare_tokens

    patch.setattr(planner.Draft, "_take_spare_tokens", take)
    patch.setattr(planner.Draft, "outlook_tokens", lambda self: 0)  # that alone is harmless, and else it covers this up


def a_third_plan_is_sent(patch):
    patch.setattr(executors, "PLANS_IN_FLIGHT", 3)


def ended_lanes_are_not_released(patch):
    patch.setattr(Executor, "release_ended", lambda self: ())


def an_outcome_is_taken_for_whoever_has_the_lane_now(patch):
    honest = Executor.admit

    def admit(self, request, found_tokens):
        lane = honest(self, request, found_tokens)
        lane.admitted_seq = 0
        return lane

    patch.setattr(Executor, "admit", admit)


def nobody_gives_way(patch):
    patch.setattr(planner, "_relieve", lambda draft: None)


def a_moved_request_forgets_what_it_has_generated(patch):
    def admit(self, lane):
        submit = self.submit
        return wire.Admit(
            lane,
            submit.request_id,
            submit.prompt_token_ids,
            submit.sampling,
            self.max_new_tokens,
            submit.resume_token_ids,
            namespace=submit.namespace,
        )

    patch.setattr(Request, "admit", admit)


def a_lost_stream_is_closed_at_once(patch):
    def linger(self, request, now_s):
        self.update(request, request.ending("abort"))

    patch.setattr(Streams, "linger", linger)


def requests_of_a_dead_detokenizer_go_on(patch):
    patch.setattr(Requests, "detokenizer_left", lambda self, detokenizer: self.streams.leave(detokenizer))


def an_audit_finds_nothing_lost(patch):
    patch.setattr(Ledger, "_is_lost", lambda self, gateway, entry, now_s: False)


def who_is_held_back_is_forgotten(patch):
    patch.setattr(Promises, "release", lambda self, seq, now_s: [])


def a_hint_stands_still_when_the_tree_grows(patch):
    patch.setattr(PrefixIndex, "_move_on", lambda self, spot: None)


def who_waits_for_an_executor_that_dies_is_left_there(patch):
    patch.setattr(Placement, "route_all", lambda self, executor: None)


def forced_tokens_are_believed_to_need_no_room(patch):
    patch.setattr(draft.Spread, "room_for", lambda self, tokens: min(tokens, self.page_size))
    patch.setattr(planner.Draft, "outlook_tokens", lambda self: 0)


def a_constraint_is_asked_for_only_once(patch):
    patch.setattr(Parking, "ask_again", lambda self, now_s: None)


def a_refused_constraint_is_asked_for_again(patch):
    def compiled(self, executor, answer):
        for request in executor.parking.requests(answer.key, answer.tenant):
            executor.dequeue(request)
            executor.enqueue(request) if answer.error else self.places.route(request)

    patch.setattr(Requests, "compiled", compiled)


def a_constrained_request_does_not_wait(patch):
    patch.setattr(Request, "may_run_at", lambda self, executor: True)


def who_is_parked_keeps_its_place_at_an_executor_that_dies(patch):
    honest = Executor.queued.fget
    patch.setattr(Executor, "queued", property(lambda self: (r for r in honest(self) if r not in self.parking)))


def suspects_run_with_the_others(patch):
    patch.setattr(Trials, "take", lambda self, request: False)
    patch.setattr(integrity, "_check_suspects", lambda core: None)


def a_trial_does_not_wait_for_the_plans_in_flight(patch):
    patch.setattr(Executor, "drains", property(lambda self: False, lambda self, value: None), raising=False)


def who_was_there_at_two_deaths_is_guilty(patch):
    honest = Suspects.died

    def died(self, executor, reach_tokens, now_s):
        again = next((key for key in reach_tokens if self.group(key)), None)
        guilty = honest(self, executor, reach_tokens, now_s)
        if again is not None:
            self.clear(again)
        return again or guilty

    patch.setattr(Suspects, "died", died)


def nobody_is_guilty(patch):
    honest = Suspects.died

    def died(self, executor, reach_tokens, now_s):
        honest(self, executor, reach_tokens, now_s)

    patch.setattr(Suspects, "died", died)


MUTANTS = [
    Mutant(room_forgets_the_plans_in_flight, "over-committed"),
    Mutant(a_start_reserves_only_what_it_computes, "over-committed"),
    Mutant(spare_tokens_are_not_reserved, "over-committed"),
    Mutant(forced_tokens_are_believed_to_need_no_room, "over-committed"),
    Mutant(a_constraint_is_asked_for_only_once, "a request does not end"),
    Mutant(a_refused_constraint_is_asked_for_again, "a request does not end"),
    Mutant(a_constrained_request_does_not_wait, "a request does not end"),
    Mutant(who_is_parked_keeps_its_place_at_an_executor_that_dies, "waits and has a lane|wait or have a lane|refused"),
    Mutant(a_third_plan_is_sent, "three plans in flight|3 plans are in flight"),
    Mutant(ended_lanes_are_not_released, "something is left over"),
    Mutant(an_outcome_is_taken_for_whoever_has_the_lane_now, "wrong output"),
    Mutant(nobody_gives_way, "a request does not end"),
    Mutant(a_moved_request_forgets_what_it_has_generated, "wrong output"),
    Mutant(a_lost_stream_is_closed_at_once, "wrong output"),
    Mutant(requests_of_a_dead_detokenizer_go_on, "nobody streams|does not end|missing among"),
    Mutant(an_audit_finds_nothing_lost, "a request does not end"),
    Mutant(who_is_held_back_is_forgotten, "a request does not end"),
    Mutant(a_hint_stands_still_when_the_tree_grows, "does not stand where its tokens lead"),
    Mutant(who_waits_for_an_executor_that_dies_is_left_there, "wait or have a lane|waits and has a lane"),
    Mutant(suspects_run_with_the_others, "a suspect runs with others"),
    Mutant(a_trial_does_not_wait_for_the_plans_in_flight, "a suspect runs with others"),
    Mutant(who_was_there_at_two_deaths_is_guilty, "an innocent one is given up"),
    Mutant(nobody_is_guilty, "a request does not end"),
]
