"""Who is taken in when there is much to do, and when the others are told to come back."""

import pytest

from services.scheduler import admission
from services.scheduler.backlog import Load
from shared.config import SchedulerConfig
from shared.drain_rate import LEAST_GUESS_S, DrainRate
from tests.services.scheduler.hub import EXECUTOR, PROMPT, Hub, submit

NOW_S = 1000.0


def draining(every_s, tokens=10):
    """Ten have started, one every so many seconds."""
    drain = DrainRate()
    drain.restart(NOW_S - 10 * every_s)
    for number in range(1, 11):
        drain.left(NOW_S - (10 - number) * every_s, tokens)
    return drain


def refusal(waiting, drain=None, requests=10, tokens=1000, **fields):
    config = SchedulerConfig(max_queued_requests=requests, max_queued_tokens=tokens)
    return admission.refusal(submit(**fields), waiting, drain or draining(1.0), config, draining=False, now_s=NOW_S)


def test_without_keys_the_whole_queue_is_everybodys():
    assert refusal({"": Load(9, 90)}) is None
    error = refusal({"": Load(10, 100)})
    assert (error.status, error.code) == (429, "overloaded")


def test_a_tenant_leaves_a_little_room_for_others():
    assert refusal({"a": Load(8, 80)}, namespace="a") is None
    assert refusal({"a": Load(9, 90)}, namespace="a").code == "overloaded"
    assert refusal({"a": Load(9, 90)}, namespace="b") is None
    assert refusal({"a": Load(4, 40), "b": Load(4, 40)}, namespace="b") is None
    assert refusal({"a": Load(2, 20), "b": Load(7, 70)}, namespace="b").code == "overloaded"
    assert refusal({"a": Load(2, 20), "b": Load(7, 70)}, namespace="a") is None


def test_the_bound_is_named_and_whether_it_is_the_keys_share():
    words = "{} requests are waiting already, of 10 that may (scheduler.max_queued_requests){}; try again later"
    assert refusal({"": Load(10, 100)}).message == words.format(10, "")
    assert refusal({"a": Load(5, 50), "b": Load(5, 50)}, namespace="a").message == words.format(10, "")
    share = "; 9 are of this key, whose share is taken"
    assert refusal({"a": Load(9, 90)}, namespace="a").message == words.format(9, share)
    tokens = refusal({"a": Load(1, 870)}, prompt=100, namespace="a").message
    assert "(scheduler.max_queued_tokens); 870 are of this key" in tokens


def test_the_tokens_of_prompts_that_wait_are_bounded_too():
    assert refusal({"": Load(2, 900)}, prompt=100) is None
    assert "900 prompt tokens" in refusal({"": Load(2, 900)}, prompt=101).message
    assert refusal({"a": Load(1, 775)}, prompt=100, namespace="a") is None
    assert refusal({"a": Load(1, 870)}, prompt=100, namespace="a").code == "overloaded"
    assert refusal({"a": Load(1, 870)}, prompt=100, namespace="b") is None


def test_a_prompt_beyond_the_bound_is_taken_in_when_nobody_waits():
    assert refusal({}, prompt=5000) is None


@pytest.mark.parametrize(
    ("namespace", "samples", "never"), [("", 10, False), ("", 11, True), ("a", 9, False), ("a", 10, True)]
)
def test_samples_of_a_prompt_that_never_fit_are_refused_for_good(namespace, samples, never):
    fields = {"prompt": 100, "namespace": namespace, "samples": samples}
    for waiting in ({}, {"b": Load(9, 990)}):
        error = refusal(waiting, requests=1000, **fields)
        assert (error is not None and (error.status, error.param) == (400, "samples")) == never
    others = {namespace: Load(samples - 1, (samples - 1) * 100)}
    last = refusal(others, requests=1000, prompt=100, namespace=namespace)
    assert (last is not None) == never, "it finds the others there"


def test_a_retry_passes_whatever_its_samples_are():
    assert refusal({}, prompt=100, samples=11, attempt=2) is None


@pytest.mark.parametrize(
    ("waiting", "drain", "fields", "expected_s"),
    [
        ({"": Load(10, 100)}, draining(3.0), {}, 3.0),
        ({"": Load(12, 120)}, draining(3.0), {}, 9.0),  # after retries, which pass the bound
        ({"a": Load(8, 80), "b": Load(1, 10)}, draining(1.0), {"namespace": "a"}, 2.0),  # one of its own, in turns
        ({"": Load(1, 980)}, draining(1.0), {"prompt": 100}, 8.0),
        ({"": Load(10, 100)}, draining(0.0001), {}, admission.LEAST_RETRY_AFTER_S),
        ({"": Load(10, 100)}, draining(100.0), {}, 30.0),
        ({"": Load(30, 100)}, draining(10.0), {}, admission.MOST_RETRY_AFTER_S),
    ],
)
def test_retry_after_is_when_there_will_be_room(waiting, drain, fields, expected_s):
    assert refusal(waiting, drain, **fields).retry_after_s == pytest.approx(expected_s)


def test_as_long_as_nothing_starts_it_is_as_long_as_nothing_has_started():
    drain = DrainRate()
    drain.restart(NOW_S - 7.0)
    assert refusal({"": Load(10, 100)}, drain).retry_after_s == 7.0
    drain.restart(NOW_S)
    assert refusal({"": Load(10, 100)}, drain).retry_after_s == LEAST_GUESS_S


def test_who_would_wait_much_longer_than_it_has_is_refused_at_once():
    error = refusal({"": Load(9, 90)}, time_left_s=4.0)
    assert (error.status, error.code, error.retry_after_s) == (429, "deadline_unreachable", 5.0)
    assert refusal({"": Load(9, 90)}, time_left_s=5.0) is None
    assert refusal({"": Load(9, 90)}, time_left_s=4.0, priority=1) is None
    assert refusal({"": Load(9, 90)}, DrainRate(), time_left_s=4.0) is None
    assert refusal({"a": Load(4, 40)}, time_left_s=1.0, namespace="b") is None


def test_the_scheduler_measures_how_fast_requests_start():
    hub = Hub(max_running_requests=1).join_all()
    for number in range(5):
        hub.hear("tokenizer", submit(f"r{number}", max_new_tokens=2))
    began_s = hub.now_s
    while hub.core.requests.waiting_count > 1:
        hub.tick(1.0)
        hub.step()
    assert hub.core.requests.backlog.drain.wait_s(hub.now_s, requests=3) == hub.now_s - began_s


def running(hub):
    return {lane.request.submit.request_id for lane in hub.core.executors[EXECUTOR].running()}


def test_a_tenant_that_runs_several_gives_one_place_to_a_tenant_that_runs_nothing():
    hub = Hub(max_running_requests=3).join_all()
    for number in range(5):
        hub.hear("tokenizer", submit(f"flood-{number}", prompt=PROMPT, max_new_tokens=30, namespace="a"))
    for _ in range(5):
        hub.step()
    for name in ("quiet-0", "quiet-1"):
        hub.hear("tokenizer", submit(name, prompt=PROMPT, max_new_tokens=9, namespace="b"))
    hub.step()
    assert running(hub) == {"flood-0", "flood-1", "quiet-0"}
    hub.run()
    outputs = {}
    for update in hub.updates():
        outputs[update.request_id] = outputs.get(update.request_id, 0) + len(update.token_ids)
    assert outputs == {f"flood-{number}": 30 for number in range(5)} | {"quiet-0": 9, "quiet-1": 9}


def test_a_tenant_that_runs_one_keeps_it():
    hub = Hub(max_running_requests=1).join_all()
    hub.hear("tokenizer", submit("first", prompt=PROMPT, max_new_tokens=30, namespace="a"))
    hub.step(), hub.step()
    hub.hear("tokenizer", submit("other", prompt=PROMPT, namespace="b"))
    hub.step(), hub.step()
    assert running(hub) == {"first"}
