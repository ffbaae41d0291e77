"""What is left of a whole deployment when its supervisor is killed: nothing."""

import os
import signal

import psutil

from tests.support.deployment import Deployment, wait_until


def test_no_process_outlives_a_killed_serve(tmp_path):
    deployment = Deployment(tmp_path / "run")
    deployment.start()
    children = deployment.processes()[1:]
    assert len(children) >= 5
    os.kill(deployment.process.pid, signal.SIGKILL)
    deployment.process.wait()
    wait_until(lambda: not any(psutil.pid_exists(child.pid) for child in children), 5, "every child is gone")


def test_an_interrupt_stops_everything(tmp_path):
    deployment = Deployment(tmp_path / "run")
    deployment.start()
    children = deployment.processes()[1:]
    deployment.process.send_signal(signal.SIGINT)
    assert deployment.process.wait(30) == 0
    assert not any(psutil.pid_exists(child.pid) for child in children)
