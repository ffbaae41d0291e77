"""The supervisor over real processes: shared.service at one end of the lifeline, shared.supervise at the other."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import uvloop
from structlog.testing import capture_logs

from shared import supervise
from shared.config import SupervisorConfig
from shared.service import EXIT_BROKEN, EXIT_CONFIG
from shared.status_files import Trouble, troubles
from shared.supervise import BackOff, ProcessSpec, Supervisor

CONFIG = SupervisorConfig(start_timeout_s=20, hang_timeout_s=3, stop_timeout_s=1)


def spec(name, rank=0):
    return ProcessSpec(name, (sys.executable, "-m", "tests.support.sample_service", "--name", name), stop_rank=rank)


def status(folder, name):
    try:
        return json.loads((folder / f"{name}.json").read_text())
    except FileNotFoundError:
        return {"state": None, "restarts": 0, "pid": None}


async def until(condition, timeout_s=20):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def supervised(folder, *names):
    supervisor = Supervisor([spec(name) for name in names], CONFIG, folder)
    await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


@pytest.fixture(autouse=True)
def _in_the_checkout(repository, monkeypatch):
    monkeypatch.chdir(repository)


async def test_a_killed_process_is_started_again(tmp_path):
    async with supervised(tmp_path, "steady-1", "steady-2") as supervisor:
        await until(supervisor.all_ready)
        first = status(tmp_path, "steady-1")["pid"]
        os.kill(first, signal.SIGKILL)
        await until(lambda: status(tmp_path, "steady-1")["restarts"] == 1 and supervisor.all_ready())
        assert status(tmp_path, "steady-1")["pid"] != first
        assert status(tmp_path, "steady-2")["restarts"] == 0
    assert status(tmp_path, "steady-1")["state"] == "stopped"


def test_what_was_stopped_is_written_down_on_the_loop_that_serves(tmp_path):
    async def stop_three():
        supervisor = Supervisor([ProcessSpec(name, ("sleep", "60")) for name in "abc"], CONFIG, tmp_path)
        await supervisor.start()
        await until(lambda: all(status(tmp_path, name)["pid"] for name in "abc"))
        await supervisor.stop()

    uvloop.run(stop_three())
    assert [status(tmp_path, name)["state"] for name in "abc"] == ["stopped"] * 3


async def test_a_broken_process_is_started_again_with_a_growing_pause(tmp_path):
    async with supervised(tmp_path, "broken-1"):
        await until(lambda: status(tmp_path, "broken-1")["restarts"] >= 2)


async def test_a_process_that_says_that_its_work_hangs_is_killed_at_once(tmp_path, capfd):
    async with supervised(tmp_path, "hangs-1"):
        await until(lambda: status(tmp_path, "hangs-1")["restarts"] >= 1)
    assert "its work stands still" in capfd.readouterr().out


async def test_a_stopped_process_is_killed(tmp_path):
    async with supervised(tmp_path, "steady-1") as supervisor:
        await until(supervisor.all_ready)
        os.kill(status(tmp_path, "steady-1")["pid"], signal.SIGSTOP)
        await until(lambda: status(tmp_path, "steady-1")["restarts"] == 1)


async def test_what_a_restart_would_not_cure_ends_it_all(tmp_path):
    async with supervised(tmp_path, "steady-1", "misconfigured-1") as supervisor:
        async with asyncio.timeout(20):
            assert await supervisor.fatal() == ("misconfigured-1", EXIT_CONFIG, "there is no such model")


async def test_what_never_gets_ready_ends_it_all(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(supervise, "BACK_OFF_FIRST_S", 0.001)
    async with supervised(tmp_path, "unloadable-1") as supervisor:
        async with asyncio.timeout(20):
            assert (await supervisor.fatal()).code == EXIT_BROKEN
    assert status(tmp_path, "unloadable-1")["restarts"] == supervise.MOST_FALSE_STARTS - 1
    assert f"it ends with code {EXIT_BROKEN};" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["failing-1", "crashing-1"])
async def test_why_it_never_got_ready_is_told(tmp_path, monkeypatch, name):
    monkeypatch.setattr(supervise, "BACK_OFF_FIRST_S", 0.001)
    monkeypatch.setattr(supervise, "MOST_FALSE_STARTS", 1)
    with capture_logs() as lines:
        async with supervised(tmp_path, name) as supervisor, asyncio.timeout(20):
            reason = (await supervisor.fatal()).reason
    assert reason.endswith("the weights\nare torn")
    assert [line["reason"] for line in lines if line["event"] == "never_ready"] == [reason]


async def test_what_is_being_compiled_is_said(tmp_path):
    async with supervised(tmp_path / "status", "compiling-1"):
        await until(lambda: status(tmp_path / "status", "compiling-1")["state"] == "compiling")
        assert troubles(tmp_path)["compiling-1"].state == "compiling"


def test_the_pause_grows_and_less_for_one_that_was_ready():
    back_off, loading = BackOff(), BackOff()
    assert [back_off.after(3.0, was_ready=True) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert [loading.after(3.0, was_ready=False) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert back_off.after(31.0, was_ready=True) == 0.2, "it was stable"


async def test_when_a_process_is_started_again_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "BACK_OFF_FIRST_S", supervise.BACK_OFF_LAST_S)
    async with supervised(tmp_path / "status", "unloadable-1"):
        await until(lambda: status(tmp_path / "status", "unloadable-1")["state"] == "waiting")
        found = troubles(tmp_path)["unloadable-1"]
    assert (found.state, found.restarts) == ("waiting", 0)
    assert 0 < found.next_start_s <= supervise.BACK_OFF_LAST_S
    assert re.fullmatch(r"waiting for \d s, next in \d+\.\d s", str(found))


async def test_who_reads_files_at_sighup_gets_it_once_it_is_ready_and_nobody_else(tmp_path):
    reader = replace(spec("reading-1"), reads_at_hangup=True)
    supervisor = Supervisor([reader, spec("steady-1")], CONFIG, tmp_path)
    await supervisor.start()
    try:
        with capture_logs() as lines:
            supervisor.hang_up()  # before it has a process
            await until(lambda: status(tmp_path, "reading-1")["restarts"] == 1)
            await until(supervisor.all_ready)
        (ended,) = [line for line in lines if line["event"] == "process_ended"]
        assert (ended["process"], ended["code"]) == ("reading-1", -signal.SIGHUP)
    finally:
        await supervisor.stop()


async def test_a_process_that_is_told_to_stop_and_does_is_no_warning(tmp_path):
    with capture_logs() as lines:
        async with supervised(tmp_path, "steady-1") as supervisor:
            await until(supervisor.all_ready)
            os.kill(status(tmp_path, "steady-1")["pid"], signal.SIGTERM)
            await until(lambda: status(tmp_path, "steady-1")["restarts"] == 1 and supervisor.all_ready())
    assert [line["log_level"] for line in lines if line["event"] == "process_ended"] == ["info"]


@pytest.mark.parametrize(("restarts", "words"), [(0, ""), (1, ", started again once"), (2, ", started again 2 times")])
def test_how_often_it_was_started_again_in_words(restarts, words):
    assert str(Trouble("waiting", 3.0, restarts, None)) == f"waiting for 3 s{words}"


async def test_what_has_worked_before_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMPLE_SERVICE_MARK", str(tmp_path / "mark"))
    async with supervised(tmp_path, "forgetful-1") as supervisor:
        await until(supervisor.all_ready)
        os.kill(status(tmp_path, "forgetful-1")["pid"], signal.SIGKILL)
        await until(lambda: status(tmp_path, "forgetful-1")["restarts"] >= 2)


async def test_a_process_that_is_still_loading_stops_at_once(tmp_path):
    async with supervised(tmp_path, "loading-1"):
        await until(lambda: status(tmp_path, "loading-1")["pid"])
        await asyncio.sleep(0.5)  # it has its signal handlers by then, or dies of the signal: both are at once
        started_s = time.monotonic()
    assert time.monotonic() - started_s < CONFIG.stop_timeout_s


async def test_status_files_of_an_earlier_run_are_removed(tmp_path):
    (tmp_path / "tokenizer-9.json").write_text("{}")
    async with supervised(tmp_path, "steady-1") as supervisor:
        await until(supervisor.all_ready)
        assert [file.name for file in tmp_path.glob("*.json")] == ["steady-1.json"]


async def test_without_a_place_for_status_files_processes_are_kept_all_the_same(tmp_path):
    folder = tmp_path / "status"
    async with supervised(folder, "steady-1") as supervisor:
        await until(supervisor.all_ready)
        pid = status(folder, "steady-1")["pid"]
        shutil.rmtree(folder)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not supervisor.all_ready())
        await until(supervisor.all_ready)


async def test_who_does_not_stop_is_killed(tmp_path):
    async with supervised(tmp_path, "slow-1", "steady-1") as supervisor:
        await until(supervisor.all_ready)
        pids = [status(tmp_path, name)["pid"] for name in ("slow-1", "steady-1")]
    assert not any(psutil.pid_exists(pid) for pid in pids)


PARENT = """
import asyncio, sys
from pathlib import Path
from tests.shared.test_supervise import spec, CONFIG
from shared.supervise import Supervisor

async def main():
    await Supervisor([spec("steady-1"), spec("steady-2")], CONFIG, Path(sys.argv[1])).start()
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("freeze", [False, True], ids=["running", "stopped"])
async def test_no_child_outlives_a_killed_supervisor(tmp_path, freeze):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], cwd=Path.cwd())
    names = ("steady-1", "steady-2")
    try:
        await until(lambda: all(status(tmp_path, name)["state"] == "ready" for name in names))
        pids = [status(tmp_path, name)["pid"] for name in names]
        if freeze:
            os.kill(pids[0], signal.SIGSTOP)
    finally:
        parent.kill()
        parent.wait()
    killed_s = time.monotonic()
    await until(lambda: not any(psutil.pid_exists(pid) for pid in pids), timeout_s=5)
    assert time.monotonic() - killed_s < 5
