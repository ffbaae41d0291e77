"""Real processes, each a server of a few lines instead of ours."""

import http.server
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import psutil
import pytest

from sapwood.errors import NotStarted, ProgramError
from sapwood.server_process import ServerProcess, free_port, server_command
from tests.support.deployment import wait_until

SERVER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" and {ready} else 503)
        self.end_headers()
    def log_message(self, *_):
        pass
def stop(*_):
    print("stopping", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, {on_term})
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""


def server(log_file=None, *, ready=True, on_term="stop"):
    port = free_port()
    code = SERVER.format(port=port, ready=ready, on_term=on_term)
    return ServerProcess([sys.executable, "-c", code], f"http://127.0.0.1:{port}", log_file)


def processes(started):
    """The keeper and the server."""
    keeper = psutil.Process(started._process.pid)
    return [keeper, *keeper.children(recursive=True)]


def test_it_answers_once_it_is_started_and_is_gone_once_it_is_stopped(tmp_path):
    started = server(tmp_path / "log")
    started.start(30)
    assert httpx.get(f"{started.url}/ready").status_code == 200
    left = processes(started)
    assert len(left) == 2
    assert started.is_running
    started.stop()
    started.stop()
    assert not started.is_running
    assert not any(process.is_running() for process in left)
    assert (tmp_path / "log").read_text().split() == ["listening", "stopping"]


def test_its_folder_goes_with_it(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    command = [sys.executable, "-c", "raise SystemExit"]
    with pytest.raises(NotStarted):
        ServerProcess(command, "http://127.0.0.1:9", tmp_path / "log", folder=folder).start(30)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_its_folder_goes_if_its_log_cannot_be_written(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(ProgramError, match="log_file"):
        ServerProcess(["never"], "http://127.0.0.1:9", tmp_path / "none" / "log", folder=folder).start(30)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_ends_at_once_is_told_with_its_last_words():
    failing = ServerProcess([sys.executable, "-c", "import sys; sys.exit('no such model')"], "http://127.0.0.1:9")
    with pytest.raises(NotStarted, match="ended with code 1; it said:\nno such model") as failure:
        failing.start(30)
    assert failure.value.log == "no such model"
    assert not failing.log_file.exists()


def test_a_server_that_is_not_ready_in_time_is_stopped(tmp_path):
    slow = server(tmp_path / "log", ready=False)
    with pytest.raises(NotStarted, match=r"takes no requests after 0\.2 s"):
        slow.start(0.2)
    assert not slow.is_running


def test_a_server_that_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("sapwood.server_process.STOP_TIMEOUT_S", 0.2)
    stubborn = server(tmp_path / "log", on_term="signal.SIG_IGN")
    stubborn.start(30)
    left = processes(stubborn)
    stubborn.stop()
    wait_until(lambda: not any(process.is_running() for process in left), 10, "both processes are gone")


def test_it_does_not_outlive_whoever_started_it(tmp_path):
    port = free_port()
    command = [sys.executable, "-c", SERVER.format(port=port, ready=True, on_term="stop")]
    program = f"""
import sys
from sapwood.server_process import ServerProcess
started = ServerProcess({command!r}, "http://127.0.0.1:{port}")
started.start(30)
print(started._process.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        keeper = psutil.Process(int(parent.stdout.readline()))
        left = [keeper, *keeper.children(recursive=True)]
        assert len(left) == 2
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not any(process.is_running() for process in left), 10, "keeper and server are gone")


def test_nor_does_what_prepares_it(tmp_path):
    """A server that converts its model: the process that does so has no lifeline of its own."""
    converting = "import time; print('converting', flush=True); time.sleep(600)"
    server_code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {converting!r}])"
    program = f"""
from pathlib import Path
import sys
from sapwood.server_process import ServerProcess
ServerProcess([sys.executable, "-c", {server_code!r}], "http://127.0.0.1:9", Path({str(tmp_path / "log")!r})).start(600)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        log = tmp_path / "log"
        wait_until(lambda: log.exists() and "converting" in log.read_text(), 30, "the conversion has begun")
        left = psutil.Process(parent.pid).children(recursive=True)
        assert len(left) == 3
        os.kill(parent.pid, signal.SIGKILL)
    wait_until(lambda: not any(process.is_running() for process in left), 10, "keeper, server and conversion are gone")


def test_options_are_those_of_the_command():
    options = {
        "model_path": Path("/models/m"),
        "page_size": 16,
        "disable_radix_cache": True,
        "enable_metrics": False,
        "api_key": ["a", "b"],
        "dtype": None,
    }
    expected = ["--model-path", "/models/m", "--page-size", "16", "--disable-radix-cache"]
    assert server_command(options)[4:] == [*expected, "--api-key", "a", "--api-key", "b"]


def test_a_port_that_somebody_listens_at_is_refused(tmp_path):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as stranger:
        threading.Thread(target=stranger.handle_request, daemon=True).start()
        process = ServerProcess(["never"], f"http://127.0.0.1:{stranger.server_port}", tmp_path / "log")
        with pytest.raises(NotStarted, match="already"):
            process.start(1.0)
    assert not process.is_running


def test_a_forked_child_leaves_it_to_its_parent():
    started = server()
    started.start(30)
    may_end, end = os.pipe()
    child = os.fork()
    if child == 0:
        started.stop()
        os.close(end)
        os.read(may_end, 1)  # outlives the parent's stop
        os._exit(0)
    try:
        assert started.log_file.exists()
        left = processes(started)
        started.stop()
        assert not any(process.is_running() for process in left)
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(may_end)


def test_a_log_in_no_folder(tmp_path):
    with pytest.raises(ProgramError, match="log_file"):
        server(tmp_path / "none" / "log").start(30)
