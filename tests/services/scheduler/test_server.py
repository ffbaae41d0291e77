"""The edge: links in, links out, the tick, and commands that are events themselves."""

import pytest

from services.scheduler.server import build
from shared import wire
from shared.config import Config, SupervisorConfig
from shared.link import DialledLink, Received
from shared.service import Context
from shared.transport import MemoryTransport
from tests.services.scheduler.hub import submit
from tests.simulation.tokens import expected_output

INFO = wire.ExecutorInfo("fake", 100, 1, 8, 4096)


class Peer:
    """What dials the hub, by hand."""

    def __init__(self, transport, config, role, info=None):
        self.heard = []
        self.link = DialledLink(
            transport,
            config.endpoint("hub"),
            {"gateway": wire.HubToGateway, "detokenizer": wire.HubToDetokenizer, "executor": wire.HubToExecutor}[role],
            lambda event: self.heard.append(event.message) if isinstance(event, Received) else None,
            to="scheduler",
            identity=role,
            hello=lambda: wire.Hello(role, wire.PROTOCOL, role, info),
            clock=lambda: 0.0,
        )

    def say(self, message):
        assert self.link.send("hub", message)

    def messages(self, kind):
        return [message for message in self.heard if isinstance(message, kind)]


@pytest.fixture
async def stage():
    transport = MemoryTransport()
    config = Config(run_dir="/nowhere", supervisor=SupervisorConfig(hang_timeout_s=5.0))
    context = Context(config, "scheduler", "hub", transport, fail=lambda reason: pytest.fail(reason))
    scheduler = build(context)
    await scheduler.start()
    peers = {role: Peer(transport, config, role) for role in ("gateway", "detokenizer")}
    peers["executor"] = Peer(transport, config, "executor", INFO)
    for peer in peers.values():
        await peer.link.refresh()
        peer.link.tick()
    transport.pump()
    for peer in peers.values():  # a heartbeat each, now that they are known
        peer.say(wire.Heartbeat(wire.Progress()))
    transport.pump()
    yield scheduler, peers, transport
    await scheduler.stop()


async def test_a_request_goes_from_the_gateway_through_the_executor_to_the_detokenizer(stage):
    scheduler, peers, transport = stage
    prompt = (1, 2, 3)
    peers["gateway"].say(submit(prompt=prompt, max_new_tokens=1))
    transport.pump()
    assert peers["gateway"].messages(wire.Accepted) == [wire.Accepted("r1", 1, prompt, 1)]
    (plan,) = peers["executor"].messages(wire.StepPlan)
    token = expected_output(prompt, 1, stops_at_string=False)[0][0]
    outcome = wire.Outcome(plan.slices[0].lane, 3, 0, new_token_ids=(token,), finish_reason="length")
    capacity = wire.Capacity(97, 3, 0)
    peers["executor"].say(
        wire.StepResult(plan.seq, (outcome,), capacity, wire.CacheCounters(), wire.StageTimes(total_s=0.01))
    )
    transport.pump()
    opened, batch = peers["detokenizer"].messages(wire.Open | wire.TokenBatch)
    assert isinstance(opened, wire.Open)
    assert [(update.token_ids, update.finish_reason) for update in batch.updates] == [((token,), "length")]
    assert scheduler.progress().last_seq == 1


async def test_heartbeats_tell_what_the_scheduler_sees(stage):
    scheduler, peers, transport = stage
    scheduler.tick()
    transport.pump()
    beat = peers["gateway"].messages(wire.Heartbeat)[-1]
    assert beat.progress.peers == {"gateway": 1, "detokenizer": 1, "executor": 1}


async def test_a_peer_that_cannot_be_reached_is_found_out_by_sending(stage):
    scheduler, peers, transport = stage
    peers["gateway"].say(submit(prompt=(1, 2, 3)))
    transport.pump()
    transport.unplug(b"executor")
    peers["gateway"].say(submit("r2", prompt=(1, 2, 3)))
    transport.pump()
    scheduler.tick()
    transport.pump()
    assert scheduler.progress().peers == {"gateway": 1, "detokenizer": 1}
    assert [lost.request_id for lost in peers["gateway"].messages(wire.Lost)] == ["r1"]


async def test_a_hung_executor_is_dropped_and_may_come_back(stage):
    scheduler, peers, transport = stage
    peers["gateway"].say(submit(prompt=(1, 2, 3)))
    transport.pump()
    peers["executor"].say(wire.Heartbeat(wire.Progress(step_age_s=9.0)))
    transport.pump()
    scheduler.tick()
    assert "executor" not in scheduler.progress().peers
    transport.pump()  # it is reset, and says Hello again
    assert scheduler.progress().peers["executor"] == 1
