"""The scripted executor: as an executor towards the scheduler, as the script says towards the tests."""

import asyncio
import contextlib
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import config as configuration
from shared import wire
from shared.config import Config, ConfigError, LinksConfig, ModelConfig
from shared.constraints import key_of
from shared.link import BoundLink, Joined, Received
from shared.model_card import load_card, prepared_folder
from shared.transport import MemoryTransport, ZmqTransport
from tests.support.bound_peer import BoundPeer, context, link_up
from tests.support.scripted_executor import (
    BrokenPlan,
    Fault,
    Rule,
    ScriptedExecutor,
    ScriptedExecutorService,
    load_rules,
)
from tests.support.small_tokenizers import byte_level, small_card, write_folder

PROMPT = (10, 11, 12, 13)


def admit(lane=1, prompt=PROMPT, limit=100, resume=(), **sampling):
    return wire.Admit(lane, "r", prompt, wire.Sampling(seed=1, **sampling), limit, resume)


def slices(*numbers, tokens=1000):
    return tuple(wire.Slice(number, tokens) for number in numbers)


class Driver:
    """Numbers the plans and keeps what came back."""

    def __init__(self, *rules, **options):
        self.executor = ScriptedExecutor(rules, **options)
        self.seq = 0

    def step(self, **plan):
        self.seq += 1
        self.last = self.executor.step(wire.StepPlan(self.seq, **plan))
        return {outcome.lane: outcome for outcome in self.last.result.outcomes}

    def run(self, admitted=None, *, most=50):
        """One request to its end; its outcomes."""
        admitted = admitted or admit()
        outcomes = list(self.step(admits=(admitted,)).values())
        while (not outcomes or outcomes[-1].finish_reason is None) and len(outcomes) < most:
            outcomes.append(self.step(slices=slices(admitted.lane))[admitted.lane])
        return outcomes


def emitted(outcomes):
    return tuple(token_id for outcome in outcomes for token_id in outcome.new_token_ids)


# --- the script ------------------------------------------------------------------------------------------------------


def test_without_a_rule_the_prompt_comes_back():
    outcomes = Driver().run()
    assert emitted(outcomes) == PROMPT
    assert outcomes[-1].finish_reason == "stop"


def test_the_first_rule_that_begins_the_prompt_counts():
    rules = Rule(match=(10, 99), tokens=(1,)), Rule(match=(10, 11), tokens=(2, 3)), Rule(tokens=(4,))
    assert emitted(Driver(*rules).run()) == (2, 3)
    assert emitted(Driver(*rules).run(admit(prompt=(5,)))) == (4,)


@pytest.mark.parametrize(
    ("rule", "fields", "tokens", "finish_reason"),
    [
        (Rule(tokens=(1, 2, 3)), {}, (1, 2, 3), "stop"),
        (Rule(tokens=(1, 2, 3), finish="length"), {}, (1, 2, 3), "length"),
        (Rule(tokens=(1, 2, 3)), {"limit": 2}, (1, 2), "length"),
        (Rule(tokens=(1, 2)), {"limit": 5, "ignore_eos": True}, (1, 2, 1, 2, 1), "length"),
        (Rule(tokens=()), {}, (), "stop"),
        (Rule(tokens=()), {"ignore_eos": True}, (), "stop"),
        (Rule(tokens=(1, 2, 3, 4, 5), chunk=2), {}, (1, 2, 3, 4, 5), "stop"),
        (Rule(tokens=(1, 2, 3, 4, 5), chunk=2), {"limit": 3}, (1, 2, 3), "length"),
    ],
)
def test_output_and_its_end(rule, fields, tokens, finish_reason):
    outcomes = Driver(rule).run(admit(**fields))
    assert (emitted(outcomes), outcomes[-1].finish_reason) == (tokens, finish_reason)
    assert max((len(outcome.new_token_ids) for outcome in outcomes), default=0) <= rule.chunk


@pytest.mark.parametrize(("stops", "eos", "expected"), [((3,), (), 3), ((), (3,), 3), ((2,), (), None)])
def test_the_stop_token_is_named(stops, eos, expected):
    outcomes = Driver(Rule(tokens=(1, 2, 3)), eos_token_ids=eos).run(admit(stop_token_ids=stops))
    assert outcomes[-1].matched_stop == expected


def test_logprobs_come_when_asked_for_and_allowed():
    wanted = admit(logprobs=True, top_logprobs=2)
    [*_, last] = Driver(Rule(tokens=(5,))).run(wanted)
    assert last.logprobs == (wire.TokenLogprob(5, -0.5, ((5, -0.5), (6, -1.5))),)
    assert Driver(Rule(tokens=(5,), logprobs=False)).run(wanted)[-1].logprobs == ()
    assert Driver(Rule(tokens=(5,))).run()[-1].logprobs == ()


def test_a_step_takes_as_long_as_its_slowest_lane():
    driver = Driver(Rule(match=(1,), delay_s=0.1, chunk=3), Rule(delay_s=0.2))
    driver.step(admits=(admit(1, (1, 2, 3)), admit(2, (2,))), slices=slices(1, 2))
    assert driver.last.delay_s == pytest.approx(0.3)
    assert driver.last.result.times.total_s == driver.last.delay_s


def test_resumed_output_goes_on_where_it_was():
    driver = Driver(Rule(tokens=(1, 2, 3, 4)))
    assert emitted(driver.run(admit(resume=(1, 2)))) == (3, 4)


@pytest.mark.parametrize(
    ("resume", "limit", "finish_reason"), [((1, 2), 10, "stop"), ((1,), 1, "length"), ((1,), 10, None)]
)
def test_a_resumed_request_that_is_over_ends_at_its_admission(resume, limit, finish_reason):
    outcomes = Driver(Rule(tokens=(1, 2))).step(admits=(admit(resume=resume, limit=limit),))
    expected = wire.Outcome(1, 0, 0, finish_reason=finish_reason)
    assert list(outcomes.values()) == ([] if finish_reason is None else [expected])


@pytest.mark.parametrize("kind", ["exit", "hang", "drop_result"])
@pytest.mark.parametrize("chunk", [1, 2])
def test_a_fault_comes_instead_of_its_token(kind, chunk):
    driver = Driver(Rule(tokens=(1, 2, 3, 4), chunk=chunk, fault=Fault(kind, at=2)))
    delivered = ()
    outcome = driver.step(admits=(admit(),), slices=slices(1))[1]
    while driver.last.fault is None:
        delivered += outcome.new_token_ids
        outcome = driver.step(slices=slices(1))[1]
    assert driver.last.fault == kind
    assert delivered == (1, 2)


def test_an_error_comes_behind_the_tokens_before_it():
    outcomes = Driver(Rule(tokens=(1, 2, 3, 4), chunk=3, fault=Fault("error", at=2))).run()
    assert emitted(outcomes) == (1, 2)
    assert (outcomes[-1].finish_reason, outcomes[-1].error.code) == ("error", "scripted_error")


def test_a_resumed_request_is_spared_unless_the_script_wants_it():
    rule = Rule(tokens=(1, 2, 3), fault=Fault("error", at=1))
    assert Driver(rule).run(admit(resume=(1,)))[-1].finish_reason == "stop"
    again = msgspec.structs.replace(rule, fault=Fault("error", at=1, resumed_too=True))
    assert Driver(again).run(admit(resume=(1,)))[-1].finish_reason == "error"


# --- an executor -----------------------------------------------------------------------------------------------------


def test_an_admission_holds_nothing_and_says_nothing():
    driver = Driver(Rule(cached_tokens=3))
    assert driver.step(admits=(admit(),)) == {}
    assert driver.last.result.capacity.pinned_tokens == 0


def test_a_prompt_is_computed_in_slices_and_then_gives_a_token():
    driver = Driver()
    first = driver.step(admits=(admit(),), slices=slices(1, tokens=3))[1]
    assert first == wire.Outcome(1, 3, 0)
    assert driver.step(slices=slices(1, tokens=3))[1] == wire.Outcome(1, 4, 0, new_token_ids=(10,))
    assert driver.step(slices=slices(1, tokens=1))[1].computed_tokens == 5


@pytest.mark.parametrize(("cached", "found"), [(2, 2), (4, 3), (100, 3)])
def test_what_is_cached_need_not_be_computed_but_for_one_token(cached, found):
    driver = Driver(Rule(cached_tokens=cached))
    outcome = driver.step(admits=(admit(),), slices=slices(1, tokens=1))[1]
    assert (outcome.computed_tokens, outcome.cached_tokens) == (found + 1, found)
    assert driver.step(slices=slices(1, tokens=3))[1].cached_tokens == found
    assert driver.last.result.cache.hit_tokens == found


def test_a_slice_without_room_is_declined_and_changes_nothing():
    driver = Driver(capacity_tokens=6)
    driver.step(admits=(admit(1), admit(2)), slices=slices(1))
    before = driver.last.result.capacity
    assert driver.step(slices=slices(2))[2] == wire.Outcome(2, 0, 0, declined=True)
    assert driver.last.result.capacity == before
    assert not driver.step(slices=slices(2, tokens=2))[2].declined


def test_room_is_taken_in_pages():
    driver = Driver(capacity_tokens=16, page_size=8)
    driver.step(admits=(admit(1), admit(2), admit(3)), slices=slices(1, 2))
    assert driver.last.result.capacity == wire.Capacity(0, 0, 16)
    assert driver.step(slices=slices(3))[3].declined
    assert not driver.step(slices=slices(1))[1].declined


def test_who_gave_way_comes_again_with_what_it_knows():
    driver = Driver(Rule(tokens=(1, 2, 3)))
    driver.step(admits=(admit(),), slices=slices(1))
    assert driver.step(release=(1,)) == {}
    assert driver.last.result.capacity.pinned_tokens == 0
    again = driver.step(admits=(admit(2, resume=(1,)),), slices=slices(2))
    assert again == {2: wire.Outcome(2, 5, 0, new_token_ids=(2,))}


def test_a_lane_that_is_over_is_skipped_until_its_number_is_free():
    driver = Driver(Rule(tokens=(1,)))
    driver.step(admits=(admit(),), slices=slices(1))
    assert driver.step(slices=slices(1)) == {}
    assert driver.step(release=(1,), admits=(admit(),), slices=slices(1))[1].new_token_ids == (1,)


@pytest.mark.parametrize("early", [True, False])
def test_a_cancelled_lane_is_skipped(early):
    driver = Driver()
    if not early:
        driver.step(admits=(admit(),), slices=slices(1))
    driver.executor.cancel([1])
    plan = {"admits": (admit(),)} if early else {}
    outcomes = driver.step(**plan, slices=slices(1))
    assert emitted(outcomes.values()) == ()
    assert driver.last.result.capacity.pinned_tokens == 0
    assert driver.step(release=(1,), admits=(admit(),), slices=slices(1))[1].new_token_ids == (10,)


def test_a_new_grant_begins_anew():
    driver = Driver()
    driver.step(admits=(admit(),), slices=slices(1))
    driver.executor.reset()
    driver.seq = 70
    assert driver.executor.lanes == 0
    assert driver.step(admits=(admit(),), slices=slices(1))[1].new_token_ids == (10,)


@pytest.mark.parametrize("plan", [{"slices": slices(9)}, {"release": (9,)}, {"admits": (admit(1),)}])
def test_a_plan_that_breaks_the_protocol_is_not_run(plan):
    driver = Driver()
    driver.step(admits=(admit(1),))
    with pytest.raises(BrokenPlan):
        driver.step(**plan)


def test_a_gap_in_the_plans_breaks_the_protocol():
    driver = Driver()
    driver.step()
    driver.seq += 1
    with pytest.raises(BrokenPlan, match="plan 3 after plan 1"):
        driver.step()


@given(data=st.data(), page_size=st.sampled_from([1, 4]))
def test_capacity_is_exact_under_any_plans(data, page_size):
    driver = Driver(Rule(tokens=(1, 2, 3), cached_tokens=2), capacity_tokens=24, page_size=page_size)
    lanes, computed = set(), {}
    for _ in range(data.draw(st.integers(1, 12))):
        release = data.draw(st.sets(st.sampled_from(sorted(lanes)))) if lanes else set()
        lanes -= release
        new = data.draw(st.sets(st.integers(0, 4))) - lanes
        lanes |= new
        chosen = data.draw(st.lists(st.sampled_from(sorted(lanes)), unique=True)) if lanes else []
        for number in release | new:
            computed[number] = 0
        outcomes = driver.step(
            release=tuple(release),
            admits=tuple(admit(number) for number in new),
            slices=slices(*chosen, tokens=data.draw(st.integers(1, 6))),
        )
        for number, outcome in outcomes.items():
            computed[number] = outcome.computed_tokens if outcome.finish_reason is None else 0
        capacity = driver.last.result.capacity
        assert capacity.pinned_tokens == sum(-(-tokens // page_size) * page_size for tokens in computed.values())
        assert capacity.free_tokens + capacity.pinned_tokens == 24
        assert capacity.free_tokens >= 0


# --- the file --------------------------------------------------------------------------------------------------------


def test_rules_are_read_from_yaml_and_json(tmp_path):
    yaml, json = tmp_path / "a.yaml", tmp_path / "a.json"
    yaml.write_text("- {match: [1], tokens: [2, 3], delay_s: 0.5, fault: {kind: exit, at: 1}}\n- {chunk: 2}\n")
    json.write_text(
        '[{"match": [1], "tokens": [2, 3], "delay_s": 0.5, "fault": {"kind": "exit", "at": 1}}, {"chunk": 2}]'
    )
    expected = [Rule(match=(1,), tokens=(2, 3), delay_s=0.5, fault=Fault("exit", at=1)), Rule(chunk=2)]
    assert load_rules(str(yaml)) == load_rules(str(json)) == expected
    assert load_rules(None) == []


@pytest.mark.parametrize("content", ["[{token: [1]}]", "[{chunk: 0}]", "{}", "[{fault: {kind: burn}}]"])
def test_a_script_with_a_mistake_is_a_configuration_error(tmp_path, content):
    path = tmp_path / "script.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"executor\.script"):
        load_rules(str(path))


# --- the process -----------------------------------------------------------------------------------------------------


class Rig:
    def __init__(self, *rules):
        self.transport = MemoryTransport()
        self.failed = asyncio.get_running_loop().create_future()
        rigged = context(self.transport, fail=self.failed.set_result, name="executor")
        self.service = ScriptedExecutorService(rigged, small_card(byte_level()), list(rules))
        self.hub = BoundPeer.hub(self.transport)
        self.seq = 0

    async def step(self, **plan):
        """Send a plan and wait until it is done."""
        self.seq += 1
        done = self.service.progress().last_seq
        self.hub.say(wire.StepPlan(self.seq, **plan))
        self.transport.pump()
        while self.service.progress().last_seq == done and not self.failed.done():
            await asyncio.sleep(0)
        self.transport.pump()
        return self.hub.take()


@contextlib.asynccontextmanager
async def rigged(*rules):
    rig = Rig(*rules)
    await rig.service.start()
    await link_up(rig.service, rig.transport)
    yield rig
    await rig.service.stop()


async def test_plans_are_answered_in_order():
    async with rigged() as rig:
        [first] = await rig.step(admits=(admit(),), slices=slices(1))
        [second] = await rig.step(slices=slices(1))
        assert [first.seq, second.seq] == [1, 2]
        assert emitted([*first.outcomes, *second.outcomes]) == PROMPT[:2]


async def test_admin_calls_are_answered():
    async with rigged() as rig:
        rig.hub.say(wire.Admin("c", "flush"))
        rig.transport.pump()
        assert rig.hub.take() == [wire.AdminReply("c")]


async def test_every_constraint_is_ready():
    async with rigged() as rig:
        constraint = wire.Constraint("regex", "a+")
        rig.hub.say(wire.Compile(constraint))
        rig.transport.pump()
        assert rig.hub.take() == [wire.Compiled(key_of(constraint))]


async def test_a_new_grant_forgets_lanes_and_plans():
    async with rigged() as rig:
        await rig.step(admits=(admit(),), slices=slices(1))
        rig.hub.drop()
        rig.transport.pump()
        await link_up(rig.service, rig.transport)
        assert rig.service.progress().running == 0
        rig.seq = 0
        [result] = await rig.step(admits=(admit(),), slices=slices(1))
        assert emitted(result.outcomes) == PROMPT[:1]


async def test_a_dropped_result_leaves_a_gap():
    async with rigged(Rule(fault=Fault("drop_result", at=1))) as rig:
        await rig.step(admits=(admit(),), slices=slices(1))
        assert await rig.step(slices=slices(1)) == []
        [third] = await rig.step(slices=slices(1))
        assert emitted(third.outcomes) == PROMPT[2:3]


async def test_a_scripted_exit_and_a_broken_plan_end_the_process():
    async with rigged(Rule(fault=Fault("exit"))) as rig:
        assert await rig.step(admits=(admit(),), slices=slices(1)) == []
        assert rig.failed.result() == "a scripted exit"
    async with rigged() as rig:
        assert await rig.step(slices=slices(1)) == []
        assert "broken plan" in rig.failed.result()


async def test_a_hang_shows_in_the_progress():
    async with rigged(Rule(fault=Fault("hang"))) as rig:
        rig.hub.say(wire.StepPlan(1, (admit(),), slices(1)))
        rig.transport.pump()
        while rig.service.progress().step_age_s == 0:
            await asyncio.sleep(0)
        assert rig.service.progress().last_seq == 0


@pytest.mark.integration
async def test_it_is_a_process_on_the_wire(tmp_path):
    """Started as a launcher starts an executor, with a script, against a hub on a real socket."""
    (tmp_path / "model").mkdir()
    (tmp_path / "script.yaml").write_text("[{tokens: [7, 8]}]")
    model = ModelConfig(path=str(tmp_path / "model"), cache_dir=str(tmp_path))
    write_folder(prepared_folder(model), byte_level())
    links = LinksConfig(hub=f"ipc://{tmp_path}/hub")
    executor = configuration.ExecutorConfig(
        module="tests.support.scripted_executor", script=str(tmp_path / "script.yaml"), max_total_tokens=500
    )
    (tmp_path / "config.yaml").write_bytes(configuration.dump(Config(model=model, links=links, executor=executor)))
    transport, events = ZmqTransport(), asyncio.Queue()
    hub = BoundLink(transport, links.hub, wire.HUB_ACCEPTS, events.put_nowait, identity="hub")
    command = [sys.executable, "-m", executor.module, "--config", str(tmp_path / "config.yaml"), "--name", "executor"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            joined = await asyncio.wait_for(events.get(), 30)
            assert isinstance(joined, Joined)
            card = load_card(model)
            assert joined.hello.executor == wire.ExecutorInfo(
                "small", 500, 1, executor.max_batch, card.max_model_len, False
            )
            hub.send(joined.peer, wire.StepPlan(1, (admit(),), slices(1)))
            while not isinstance(result := await asyncio.wait_for(events.get(), 30), Received) or not isinstance(
                result.message, wire.StepResult
            ):
                pass
            assert emitted(result.message.outcomes) == (7,)
        finally:
            process.terminate()
    assert process.returncode == 0
    hub.close()
    transport.close()
