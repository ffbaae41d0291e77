"""The command line as a person meets it: what is wrong is said in one line, before any process starts."""

import fcntl
import os
import socket
import subprocess
import sys

import pytest

from sapwood import __version__
from sapwood.launch import missing_server_modules, server_root

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
        (["serve", "--schedule-policy", "best"], "Invalid enum value 'best'"),
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


def test_a_run_directory_that_cannot_be_made_is_one_clear_line():
    done = sapwood("serve", "--run-dir", "/proc/x")
    assert done.returncode == CONFIG_EXIT
    assert "run_dir:" in done.stderr
    assert "Traceback" not in done.stderr


def test_health_without_processes(tmp_path):
    done = sapwood("health", "--run-dir", str(tmp_path))
    assert done.returncode == 1
    assert "no process" in done.stdout


def test_the_server_lies_in_the_checkout(repository):
    assert server_root() == repository
    assert missing_server_modules() == []
