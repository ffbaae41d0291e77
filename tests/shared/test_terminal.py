"""A process in a terminal of its own learns that it is gone; one that was to outlive it does not."""

import os
import pty
import sys

import pytest

SCRIPT = """
import os, signal, sys
if sys.argv[2] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
from shared.terminal import Terminal
terminal = Terminal()
signal.signal(signal.SIGHUP, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
signal.alarm(10)
said = [terminal.is_gone()]
os.write(1, b"started")
signal.sigwait({signal.SIGHUP})
said.append(terminal.is_gone())
open(sys.argv[1], "w").write(str(said))
"""


@pytest.mark.parametrize(("kind", "gone"), [("plain", True), ("nohup", False)])
def test_a_terminal_that_is_closed(tmp_path, kind, gone):
    script, report = tmp_path / "script.py", tmp_path / "report"
    script.write_text(SCRIPT, "utf-8")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, str(script), str(report), kind], os.environ | {"PYTHONPATH": os.getcwd()}
        )
    assert os.read(terminal, 64) == b"started"
    os.close(terminal)
    os.waitpid(pid, 0)
    assert report.read_text("utf-8") == str([False, gone])
