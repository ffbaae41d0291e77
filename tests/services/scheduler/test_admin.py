import pytest

from services.scheduler.admin import GRACE_S
from shared import wire
from tests.services.scheduler.hub import EXECUTOR, GATEWAY, Hub, submit


def asked(hub, op="info", timeout_s=5.0, call_id="mine"):
    hub.hear(GATEWAY, wire.Admin(call_id, op, timeout_s))


def two_executors():
    hub = Hub().join_all()
    hub.join_executor("executor-2")
    return hub


def answer(hub, peer, payload, error=None):
    (admin,) = hub.take(peer, wire.Admin)
    hub.hear(peer, wire.AdminReply(admin.call_id, payload, error))


def test_every_executor_is_asked_and_all_answer_as_one():
    hub = two_executors()
    asked(hub, "counters")
    answer(hub, EXECUTOR, {"hits": 1})
    assert hub.take(GATEWAY) == []
    answer(hub, "executor-2", {"hits": 2})
    (reply,) = hub.take(GATEWAY)
    assert (reply.call_id, reply.error) == ("mine", None)
    assert reply.payload["executors"] == {EXECUTOR: {"hits": 1}, "executor-2": {"hits": 2}}
    assert reply.payload["scheduler"]["waiting"] == 0
    assert set(reply.payload["scheduler"]["executors"]) == {EXECUTOR, "executor-2"}


def test_calls_of_two_gateways_under_one_name_are_two_calls():
    hub = Hub().join_all()
    hub.join("gateway-2")
    asked(hub, "tree")
    hub.hear("gateway-2", wire.Admin("mine", "flush"))
    tree, flush = hub.take(EXECUTOR, wire.Admin)
    hub.hear(EXECUTOR, wire.AdminReply(flush.call_id, {"freed": 3}))
    assert hub.take(GATEWAY) == []
    assert hub.take("gateway-2")[0].payload["executors"] == {EXECUTOR: {"freed": 3}}
    hub.hear(EXECUTOR, wire.AdminReply(tree.call_id, {"nodes": 0}))
    assert hub.take(GATEWAY)[0].payload["executors"] == {EXECUTOR: {"nodes": 0}}


def test_an_executors_error_is_the_answers_error():
    hub = two_executors()
    asked(hub, "flush")
    error = wire.Error("busy", "timeout", status=504)
    answer(hub, EXECUTOR, {}, error)
    answer(hub, "executor-2", {"freed": 1})
    assert hub.take(GATEWAY)[0].error == error


@pytest.mark.parametrize(("op", "status"), [("info", None), ("counters", None), ("flush", 503), ("tree", 503)])
def test_without_an_executor_only_the_schedulers_own_figures_can_be_told(op, status):
    hub = Hub()
    hub.join(GATEWAY)
    asked(hub, op)
    (reply,) = hub.take(GATEWAY)
    assert (reply.error.status if reply.error else None) == status
    assert reply.payload["scheduler"]["peers"] == {"gateway": 1}


def test_an_executor_that_does_not_answer_or_goes_makes_no_call_hang():
    hub = two_executors()
    asked(hub, timeout_s=2.0)
    hub.tick(2.0)
    assert hub.take(GATEWAY) == []
    hub.tick(GRACE_S + 0.1)
    assert hub.take(GATEWAY)[0].error.status == 504
    asked(hub)
    hub.leave("executor-2")
    answer(hub, EXECUTOR, {}) if len(hub.take(EXECUTOR, wire.Admin)) == 1 else None
    hub.leave(EXECUTOR)
    assert hub.take(GATEWAY)[0].error.status == 503


def test_how_long_the_oldest_one_waits():
    def oldest_s():
        return hub.core.figures()["executors"][EXECUTOR]["oldest_wait_s"]

    hub = Hub(max_running_requests=1).join_all()
    assert oldest_s() == 0
    for name in ("runs", "waits", "waits too"):
        hub.hear("tokenizer", submit(name))
        hub.tick(3.0)
    assert oldest_s() == 6
    hub.run()
    assert oldest_s() == 0


def test_an_answer_to_no_question_is_ignored():
    hub = Hub().join_all()
    hub.hear(EXECUTOR, wire.AdminReply("7", {}))
    assert hub.take(GATEWAY) == []
