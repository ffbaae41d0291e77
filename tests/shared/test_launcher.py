"""The command line as a person meets it: what is wrong is said in one line, before any process starts."""

import asyncio
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood import __version__
from sapwood.local_server import local_run_dir
from sapwood.server_code import missing_server_modules, server_root
from shared import launcher
from shared.config import load
from shared.supervise import ProcessSpec

CONFIG_EXIT = 78


def sapwood(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "sapwood", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_version():
    assert sapwood("--version").stdout.strip() == f"sapwood {__version__}"


def test_launch_server_is_serve():
    command = [sys.executable, "-m", "sapwood.launch_server", "--tp", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == CONFIG_EXIT
    assert "tensor parallelism is not available" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--model-path", "/no/such/folder"], "model.path: there is no /no/such/folder"),
        (["serve", "--enable-flashinfer"], "--enable-flashinfer"),
        (["serve", "--set", "gateway.prt=1"], "did you mean 'port'?"),
        (["serve", "--config", "/no/such.yaml"], "cannot read /no/such.yaml"),
        (["serve", "--schedule-policy", "best"], "lpm, priority - at scheduler.policy (--schedule-policy)"),
        (["serve", "--disable-radix-cache", "--schedule-policy", "lpm"], "(--schedule-policy) lpm orders by the cache"),
        (["run", "executor", "--max-total-tokens", "9", "--mem-fraction-static", "0.5"], "give one of them"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, message):
    done = sapwood(*arguments)
    assert done.returncode == CONFIG_EXIT
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named(taken_port):
    done = sapwood("serve", "--port", str(taken_port))
    assert done.returncode == CONFIG_EXIT
    assert f"cannot listen on 127.0.0.1:{taken_port}" in done.stderr


def test_a_run_directory_in_use_is_refused(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = sapwood("serve", "--run-dir", str(tmp_path))
    assert done.returncode == CONFIG_EXIT
    assert "another sapwood uses" in done.stderr


def test_a_run_directory_that_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o770)
    done = sapwood("serve", "--run-dir", str(tmp_path))
    assert done.returncode == CONFIG_EXIT
    assert "chmod 700" in done.stderr


def test_a_run_directory_that_cannot_be_made_is_one_clear_line():
    done = sapwood("serve", "--run-dir", "/proc/x")
    assert done.returncode == CONFIG_EXIT
    assert "run_dir:" in done.stderr
    assert "Traceback" not in done.stderr


def test_health_without_processes(tmp_path):
    done = sapwood("health", "--run-dir", str(tmp_path))
    assert done.returncode == 1
    assert f"no process in {tmp_path};" in done.stdout


def test_health_finds_the_server_of_this_machine_by_its_port(tmp_path):
    status = local_run_dir(30000).relative_to(Path.home()) / "status"
    (tmp_path / status).mkdir(parents=True)
    (tmp_path / status / "gateway.json").write_text(json.dumps({"state": "ready", "restarts": 0}))
    assert sapwood("health", HOME=str(tmp_path)).returncode == 0
    other = sapwood("health", "--port", "30001", HOME=str(tmp_path))
    assert (other.returncode, "-30001; " in other.stdout) == (1, True)


def test_health_names_who_is_not_well(tmp_path):
    (tmp_path / "status").mkdir()
    for name, state in (("gateway", "ready"), ("executor-1", "waiting"), ("tokenizer-1", "ready")):
        (tmp_path / "status" / f"{name}.json").write_text(json.dumps({"state": state, "restarts": 7}))
    os.utime(tmp_path / "status" / "tokenizer-1.json", (0, 0))
    done = sapwood("health", "--run-dir", str(tmp_path))
    assert done.returncode == 1
    assert re.sub(r"\d+ s,", "so long,", done.stdout) == (
        "not healthy: executor-1 (waiting for so long, started again 7 times), "
        "tokenizer-1 (stands still for so long, started again 7 times)\n"
    )


async def test_why_a_stage_cannot_start_is_the_last_line(tmp_path, repository, monkeypatch, capfd):
    monkeypatch.chdir(repository)
    argv = (sys.executable, "-m", "tests.support.sample_service", "--name", "misconfigured-1")
    config = load(overrides={"run_dir": str(tmp_path)})
    assert await launcher._supervise(config, [ProcessSpec("misconfigured-1", argv)]) == CONFIG_EXIT
    assert capfd.readouterr().err == "sapwood: misconfigured-1 cannot start: there is no such model\n"


class Hangups:
    """A supervisor whose terminal is closed: the kernel and the shell say so."""

    def __init__(self, *_arguments):
        self.told = []

    async def start(self):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)

    async def fatal(self):
        await asyncio.get_running_loop().create_future()

    async def stop(self):
        await asyncio.sleep(0)
        self.told.append("stop")

    def hang_up(self):
        self.told.append("hang up")

    def end_now(self):
        self.told.append("end now")


@pytest.mark.parametrize("close", [True, False])
async def test_a_terminal_that_is_closed_stops_all_in_order(tmp_path, monkeypatch, close):
    supervisor = Hangups()
    monkeypatch.setattr(launcher, "Supervisor", lambda *_: supervisor)
    monkeypatch.setattr(launcher.Terminal, "is_gone", lambda _: close)
    serving = asyncio.create_task(launcher._supervise(load(overrides={"run_dir": str(tmp_path)}), []))
    async with asyncio.timeout(10):
        while len(supervisor.told) < 2 - close:
            await asyncio.sleep(0)
        if not close:
            os.kill(os.getpid(), signal.SIGTERM)
        assert await serving == 0
    assert supervisor.told == (["stop"] if close else ["hang up", "hang up", "stop"])


def test_executors_are_numbered_like_tokenizers(tmp_path):
    config = load(overrides={"executor.replicas": 2, "executor.module": "a.module", "tokenizer.replicas": 2})
    specs = {spec.name: spec.argv for spec in launcher._all_specs(config, tmp_path / "config.yaml")}
    assert list(specs) == [
        *("gateway", "tokenizer-1", "tokenizer-2", "scheduler", "executor-1", "executor-2", "detokenizer-1")
    ]
    for name in ("executor-1", "executor-2"):
        assert specs[name][3:] == ("a.module", "--config", str(tmp_path / "config.yaml"), "--name", name)


@pytest.mark.parametrize(
    ("options", "name"), [([], f"tokenizer-{socket.gethostname()}"), (["--name", "tokenizer-west"], "tokenizer-west")]
)
def test_a_stage_has_the_name_that_it_is_given(monkeypatch, tmp_path, options, name):
    started = []
    monkeypatch.setattr(launcher, "_run", lambda _config, *stage: started.append(stage) or 0)
    assert launcher.main(["run", "tokenizer", "--run-dir", str(tmp_path), *options]) == 0
    assert started == [("tokenizer", name)]


def test_a_name_that_can_be_no_file():
    with pytest.raises(SystemExit):
        launcher.main(["run", "tokenizer", "--name", "../x"])


@pytest.mark.parametrize(
    ("replicas", "threads", "cores", "each"),
    [(1, None, 8, None), (2, None, 8, 4), (3, None, 8, 2), (4, None, 2, 1), (2, 5, 8, 5)],
)
def test_executors_share_the_cores(monkeypatch, replicas, threads, cores, each):
    monkeypatch.setattr(launcher, "usable_cores", lambda: cores)
    config = load(overrides={"executor.replicas": replicas, "executor.threads": threads})
    assert launcher._share_cores(config).executor.threads == each


def test_the_server_lies_in_the_checkout(repository):
    assert server_root() == repository
    assert missing_server_modules() == []
