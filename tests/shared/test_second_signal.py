"""Who is told twice to stop does so at once."""

import asyncio
import json
import signal
import subprocess
import sys

import psutil
import pytest

from shared.config import SupervisorConfig
from shared.supervise import ProcessSpec, Supervisor

SLOW = (sys.executable, "-m", "tests.support.sample_service", "--name", "slow-1")


@pytest.fixture(autouse=True)
def _in_the_checkout(repository, monkeypatch):
    monkeypatch.chdir(repository)


def test_a_stage_ends_at_the_second_signal():
    with subprocess.Popen(SLOW, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for event in (b"ready", b"stopping"):
            assert any(event in line for line in process.stdout)
            process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 128 + signal.SIGTERM


async def test_a_supervisor_that_is_told_twice_kills_what_has_not_stopped(tmp_path):
    config = SupervisorConfig(start_timeout_s=20, hang_timeout_s=20, stop_timeout_s=60)
    supervisor = Supervisor([ProcessSpec("slow-1", SLOW)], config, tmp_path)
    await supervisor.start()
    async with asyncio.timeout(20):
        while not supervisor.all_ready():
            await asyncio.sleep(0.02)
        pid = json.loads((tmp_path / "slow-1.json").read_text())["pid"]
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        assert psutil.pid_exists(pid)
        supervisor.end_now()
        await stopping
    assert not psutil.pid_exists(pid)
