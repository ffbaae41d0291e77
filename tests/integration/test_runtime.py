"""A server that a program starts for itself, with the bundled model."""

import os
import signal
import subprocess
import sys

import httpx
import psutil
import pytest

from sapwood.runtime import Runtime
from tests.support.bundled import bundled_folder
from tests.support.deployment import wait_until


def test_a_runtime_serves_and_leaves_nothing_behind(tmp_path):
    bundled_folder()
    with Runtime(model_path="bundled", page_size=16, log_level="info", log_file=tmp_path / "log") as runtime:
        left = psutil.Process(runtime._process._process.pid).children(recursive=True)
        assert len(left) >= 6
        answer = runtime.client.generate("The capital of France is", max_tokens=4, temperature=0)
        assert "Paris" in answer.text
        assert httpx.get(f"{runtime.url}/server_info").json()["executors"]["executor-1"]["page_size"] == 16
    assert not any(process.is_running() for process in left)
    assert "Sapwood is ready at" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "returned"])
def test_it_does_not_outlive_the_program(ending):
    program = """
import sys
from sapwood.runtime import Runtime
runtime = Runtime("bundled")
print(runtime._process._process.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        keeper = psutil.Process(int(parent.stdout.readline()))
        left = [keeper, *keeper.children(recursive=True)]
        if ending is None:
            parent.stdin.close()
        else:
            os.kill(parent.pid, ending)
        parent.wait(60)
    wait_until(lambda: not any(process.is_running() for process in left), 40, "no process is left")
