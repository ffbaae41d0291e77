"""Who is told twice to stop does so at once."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from shared import launcher
from shared.config import Config, SupervisorConfig
from shared.supervise import ProcessSpec

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


async def test_a_launcher_kills_what_has_not_stopped_at_the_second_signal(tmp_path):
    config = Config(run_dir=str(tmp_path), supervisor=SupervisorConfig(stop_timeout_s=60))
    running = asyncio.create_task(launcher._supervise(config, [ProcessSpec("slow-1", SLOW)]))
    status = tmp_path / "status" / "slow-1.json"
    async with asyncio.timeout(20):
        while not (status.exists() and json.loads(status.read_text())["state"] == "ready"):
            await asyncio.sleep(0.02)
        pid = json.loads(status.read_text())["pid"]
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 0.3)
        os.kill(os.getpid(), signal.SIGINT)
        assert await running == 0
    assert not psutil.pid_exists(pid)
