"""Those that wait for a constraint to be compiled: asked for once, holding nobody back, and never for ever."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from services.scheduler.parking import ASK_AGAIN_S, Parking
from services.scheduler.placement import TAKE_OVER_S
from services.scheduler.request import Request
from shared import wire
from shared.constraints import key_of
from tests.services.scheduler.hub import EXECUTOR, GATEWAY, PROMPT, Hub, plain_prompt, submit
from tests.simulation.fake_grammars import REFUSAL, REFUSED

LONG = plain_prompt(max_new_tokens=40, length=60)


def constraint(source="a+"):
    return wire.Constraint("regex", source)


def constrained(request_id="r1", source="a+", prompt=PROMPT, **fields):
    return submit(request_id, prompt=prompt, constraint=constraint(source), **fields)


def questions(hub, peer=EXECUTOR):
    return [message.constraint for message in hub.take(peer, wire.Compile)]


def admitted(hub, peer=EXECUTOR):
    return [admit.request_id for plan in hub.take(peer, wire.StepPlan) for admit in plan.admits]


def compiling(hub, peer=EXECUTOR):
    return hub.core.figures()["executors"][peer]["compiling"]


# --- the parking alone -----------------------------------------------------------------------------------------------


class ParkingMachine(RuleBasedStateMachine):
    """Against a plain list of who waits for what."""

    def __init__(self):
        super().__init__()
        self.parking, self.now_s, self.count = Parking(), 0.0, 0
        self.parked: list[Request] = []
        self.asked: dict[tuple[str, str], float] = {}  # by key and tenant

    @rule(source=st.sampled_from("abc"), tenant=st.sampled_from("AB"))
    def add(self, source, tenant):
        self.count += 1
        submitted = constrained(f"r{self.count}", source, namespace=f"{tenant}/division")
        request = Request(submitted, self.count, self.now_s, 4)
        self.parking.add(request)
        self.parked.append(request)
        self._ask()

    @precondition(lambda self: self.parked)
    @rule(data=st.data())
    def remove(self, data):
        request = data.draw(st.sampled_from(self.parked))
        self.parking.remove(request)
        self.parked.remove(request)
        if not any(other.constraint_key == request.constraint_key for other in self.parked):
            self.asked = {name: asked_s for name, asked_s in self.asked.items() if name[0] != request.constraint_key}
        self._ask()

    @rule(seconds=st.sampled_from((1.0, ASK_AGAIN_S / 2, ASK_AGAIN_S)))
    def tick(self, seconds):
        self.now_s += seconds
        self.parking.ask_again(self.now_s)
        wanted = self._wanted()
        self.asked = {
            name: asked_s
            for name, asked_s in self.asked.items()
            if name in wanted or self.now_s - asked_s < ASK_AGAIN_S
        }
        self._ask()

    def _ask(self):
        questions = list(self.parking.take_questions(self.now_s))
        names = [(key_of(question.constraint), question.tenant) for question in questions]
        due = {name for name in self._wanted() if self.now_s - self.asked.get(name, -ASK_AGAIN_S) >= ASK_AGAIN_S}
        assert sorted(names) == sorted(due)
        self.asked.update(dict.fromkeys(names, self.now_s))

    def _wanted(self):
        return {(request.constraint_key, request.tenant) for request in self.parked}

    @invariant()
    def is_the_list(self):
        self.parking.check_integrity()
        assert list(self.parking) == self.parked
        assert len(self.parking) == len(self.parked)
        for source in "abc":
            key = key_of(constraint(source))
            waiting = [one for one in self.parked if one.constraint_key == key]
            assert self.parking.requests(key, None) == waiting
            assert self.parking.requests(key, "A") == [one for one in waiting if one.tenant == "A"]


TestParking = ParkingMachine.TestCase
TestParking.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_who_has_no_constraint_or_is_parked_already_is_not_parked():
    parking = Parking()
    request = Request(constrained(), 1, 0.0, 4)
    parking.add(request)
    for wrong in (request, Request(submit(), 2, 0.0, 4)):
        with pytest.raises(ValueError, match="nothing to wait for"):
            parking.add(wrong)


# --- in the scheduler ------------------------------------------------------------------------------------------------


def test_a_constraint_is_compiled_before_its_request_runs():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    assert hub.take(EXECUTOR) == [wire.Compile(constraint())]
    assert hub.core.progress().waiting == compiling(hub) == 1
    hub.compile()
    (first, _) = hub.take(EXECUTOR, wire.StepPlan)
    assert [admit.constraint for admit in first.admits] == [constraint()]
    assert compiling(hub) == 0
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


def test_one_question_is_asked_for_all_that_want_the_same():
    hub = Hub().join_all()
    for number in range(5):
        hub.hear("tokenizer", constrained(f"r{number}", source="ab"[number % 2]))
    assert questions(hub) == [constraint("a"), constraint("b")]
    hub.run()
    assert sorted(admitted(hub)) == ["r0", "r1", "r2", "r3", "r4"]


def test_others_do_not_wait_for_it_and_it_keeps_its_place():
    hub = Hub(policy="fcfs", max_running_requests=1).join_all()
    hub.hear("tokenizer", constrained("slow"))
    for name in ("first", "second"):
        hub.hear("tokenizer", submit(name, prompt=PROMPT))
    assert admitted(hub) == ["first"]
    hub.compile()
    hub.run()
    assert admitted(hub) == ["slow", "second"]


def test_who_is_parked_does_not_take_the_place_of_a_lower_priority():
    hub = Hub(max_running_requests=1).join_all()
    hub.hear("tokenizer", submit("low", prompt=PROMPT, max_new_tokens=40))
    hub.hear("tokenizer", constrained("high", priority=1))
    hub.step(), hub.step()
    assert admitted(hub) == ["low"]
    hub.compile()
    hub.step(), hub.step()
    assert admitted(hub) == ["high"]


def test_who_is_parked_promises_nothing_and_waits_for_no_promise():
    hub = Hub(max_step_tokens=8).join_all()
    hub.hear("tokenizer", constrained("parked", prompt=(*LONG, 1)))
    hub.hear("tokenizer", submit("free", prompt=(*LONG, 2)))
    hub.step()
    assert admitted(hub) == ["free"]
    assert len(hub.core.executors[EXECUTOR].promises) == 0


def test_a_refused_constraint_ends_all_that_want_it_and_nobody_else():
    hub = Hub().join_all()
    for name, source in (("r1", REFUSED), ("r2", REFUSED), ("r3", "a+")):
        hub.hear("tokenizer", constrained(name, source))
    hub.run()
    rejected = hub.take(GATEWAY, wire.Rejected)
    assert [(answer.request_id, answer.error) for answer in rejected] == [("r1", REFUSAL), ("r2", REFUSAL)]
    assert admitted(hub) == ["r3"]


def test_a_grammar_that_has_been_evicted_is_asked_for_again_and_the_request_goes_on():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    hub.compile(), hub.take(EXECUTOR)
    hub.executors[EXECUTOR].grammars.ready.clear()
    hub.step()
    assert questions(hub) == [constraint()]
    assert (compiling(hub), hub.core.progress().running) == (1, 0)
    hub.step()
    assert questions(hub) == [], "the plan that was under way says the same"
    hub.run()
    updates = hub.updates()
    assert updates[-1].finish_reason == "length"
    assert sum(len(update.token_ids) for update in updates) == 4


def test_what_becomes_of_a_constraint_later_is_told_through_the_detokenizer():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    hub.compile()
    hub.executors[EXECUTOR].grammars.ready.clear()
    hub.step(), hub.take(GATEWAY)
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint()), REFUSAL))
    assert [(update.finish_reason, update.error) for update in hub.updates()] == [("error", REFUSAL)]
    assert hub.take(GATEWAY) == []


def test_who_gave_way_is_not_parked_again():
    hub = Hub(max_running_requests=1).join_all()
    hub.hear("tokenizer", constrained("low", max_new_tokens=40))
    hub.compile(), hub.step()
    hub.hear("tokenizer", submit("high", prompt=PROMPT[::-1], priority=1))
    hub.run()
    assert admitted(hub) == ["low", "high", "low"]
    assert questions(hub) == [constraint()]


def test_each_tenant_asks_for_itself_and_an_answer_to_one_is_not_the_other_s():
    hub = Hub().join_all()
    for tenant in "AAB":
        hub.hear("tokenizer", constrained(f"{tenant}{hub.core.progress().waiting}", namespace=f"{tenant}/x"))
    assert hub.take(EXECUTOR) == [wire.Compile(constraint(), tenant) for tenant in "AB"]
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint()), REFUSAL, "A"))
    assert [answer.request_id for answer in hub.take(GATEWAY, wire.Rejected)] == ["A0", "A1"]
    assert compiling(hub) == 1
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint()), REFUSAL, "B"))
    assert [answer.request_id for answer in hub.take(GATEWAY, wire.Rejected)] == ["B2"]


def test_the_line_moves_though_no_step_runs():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    before = hub.core.progress().last_seq
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint("other"))))
    assert hub.core.progress().last_seq > before


def test_an_answer_that_nobody_waits_for_is_ignored():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint("other")), REFUSAL))
    hub.hear(GATEWAY, wire.Abort("r1", 1, GATEWAY, "client"))
    hub.hear(EXECUTOR, wire.Compiled(key_of(constraint())))
    hub.hear("nobody", wire.Compiled(key_of(constraint())))
    assert hub.take(EXECUTOR, wire.StepPlan) == []
    assert hub.take(GATEWAY, wire.Rejected) == []


def test_a_question_without_an_answer_is_asked_again():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    hub.executors[EXECUTOR].grammars.asked.clear(), questions(hub)
    hub.tick(ASK_AGAIN_S - 0.1)
    assert questions(hub) == []
    hub.tick(0.2)
    assert questions(hub) == [constraint()]
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


def test_who_is_parked_fills_the_queue_and_may_be_given_up():
    hub = Hub(max_queued_requests=1).join_all()
    hub.hear("tokenizer", constrained("r1", time_left_s=1)), hub.hear("tokenizer", constrained("r2"))
    assert [answer.error.code for answer in hub.take(GATEWAY, wire.Rejected)] == ["overloaded"]
    hub.tick(1.1)
    assert [answer.error.code for answer in hub.take(GATEWAY, wire.Rejected)] == ["deadline_exceeded"]
    assert compiling(hub) == 0


def test_an_executors_death_moves_who_is_parked_there():
    hub = Hub().join_all()
    hub.hear("tokenizer", constrained())
    hub.leave(EXECUTOR)
    assert hub.core.progress().waiting == 1
    hub.join_executor("executor-2")
    assert questions(hub, "executor-2") == [constraint()]
    hub.run()
    assert hub.updates()[-1].finish_reason == "length"


def test_who_is_parked_is_fitted_to_the_executors_that_are_left():
    hub = Hub().join_all(capacity_tokens=1000)
    hub.hear("tokenizer", constrained("large", prompt=60)), hub.hear("tokenizer", constrained("small"))
    hub.leave(EXECUTOR), hub.take(GATEWAY)
    hub.join_executor("executor-2", capacity_tokens=50)
    assert [answer.request_id for answer in hub.take(GATEWAY, wire.Rejected)] == ["large"]
    assert compiling(hub, "executor-2") == 1


def test_an_idle_executor_takes_nobody_who_is_parked_and_parks_who_it_takes():
    hub = Hub(max_running_requests=1).join_all()
    hub.hear("tokenizer", submit("running", prompt=PROMPT, max_new_tokens=40))
    hub.hear("tokenizer", constrained("ready", source="a")), hub.compile()
    hub.hear("tokenizer", constrained("parked", source="b"))
    hub.join_executor("executor-2")
    hub.tick(TAKE_OVER_S + 0.1)
    assert questions(hub, "executor-2") == [constraint("a")]
    assert [compiling(hub, peer) for peer in (EXECUTOR, "executor-2")] == [1, 1]
    hub.compile("executor-2")
    assert admitted(hub, "executor-2") == ["ready"]


def test_two_idle_executors_do_not_hand_on_what_took_long_to_compile():
    hub = Hub().join_all()
    hub.join_executor("executor-2")
    hub.hear("tokenizer", constrained())
    hub.tick(TAKE_OVER_S + 0.1)
    hub.compile()
    assert admitted(hub) == ["r1"]
