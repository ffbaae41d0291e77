"""Restarts on purpose, under steady load: no request fails."""

import asyncio
import itertools
import signal
import time

import pytest
import yaml

from tests.faults import census
from tests.faults.balancer import balancer
from tests.faults.load import steady_load
from tests.support.deployment import deployed, free_port, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.soak]

DURATION_S = 300.0
DRAINS = 5  # of each gateway
STAGES = ("tokenizer-1", "scheduler", "executor-1", "detokenizer-1")
FRONTS = "ipc://{run_dir}/front.sock", "ipc://{run_dir}/front-2.sock"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    fronts = ("--set", f"links.front={','.join(FRONTS)}", "--set", f"links.front_bind={FRONTS[0]}")
    with deployed(tmp_path_factory.mktemp("rolling"), *fronts, *census.SMALL_POOL) as deployment:
        yield deployment


def restart(deployment, name):
    """SIGTERM, as an operator sends it; its supervisor starts it again."""
    before = deployment.status(name)["restarts"]
    deployment.kill(name, signal.SIGTERM)
    deployment.wait_restarted(name, before + 1)
    wait_until(lambda: census.is_ready(deployment), 60, "ready again")


async def until(end_s, work, names):
    for name in itertools.cycle(names):
        if time.monotonic() >= end_s:
            return
        await asyncio.to_thread(work, name)


def test_the_stages_are_restarted_one_after_the_other(server):
    async def scenario():
        async with steady_load(server.url) as count:
            await until(time.monotonic() + DURATION_S, lambda name: restart(server, name), STAGES)
        return count

    before = census.take(server)
    count = asyncio.run(scenario())
    restarts = {name: server.status(name)["restarts"] for name in STAGES}
    print(f"\n{DURATION_S:g} s, {count.answered} requests answered, {len(count.failures)} failed, restarts: {restarts}")
    assert count.failures == []
    assert min(restarts.values()) >= 3
    census.take(server).check(before)


class SecondGateway:
    """Its own process and configuration, beside the one that the supervisor keeps."""

    def __init__(self, server):
        config = yaml.safe_load((server.run_dir / "config.yaml").read_text())
        config["gateway"]["port"] = free_port()
        config["links"]["front_bind"] = FRONTS[1]
        self.url = f"http://127.0.0.1:{config['gateway']['port']}"
        self._server = server
        self._file = server.run_dir / "second.yaml"
        self._file.write_text(yaml.safe_dump(config))
        self._start()

    def _start(self):
        self._process = self._server.start_extra("gateway", "gateway-2", self._file)
        wait_until(lambda: census.answers_ready(self.url), 60, "the second gateway is ready")

    def restart(self):
        self._process.terminate()
        assert self._process.wait(60) == 0
        self._start()


def test_two_gateways_are_drained_and_restarted_in_turn(server):
    second = SecondGateway(server)

    async def scenario():
        port = free_port()
        async with balancer([server.url, second.url], port) as front, steady_load(f"http://127.0.0.1:{port}") as count:
            for _ in range(DRAINS):
                await asyncio.to_thread(restart, server, "gateway")
                await asyncio.to_thread(second.restart)
        return count, front.passed_on

    count, passed_on = asyncio.run(scenario())
    told = f"{count.answered} answered, {len(count.failures)} failed, {passed_on} passed on to the other one"
    print(f"\n{DRAINS} drains of each gateway: {told}")
    assert count.failures == []
