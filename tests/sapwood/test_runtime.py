"""What a Runtime makes of what it is told; one that really serves a model is in tests/integration/test_runtime.py."""

import atexit
import os
import tempfile
from pathlib import Path

import pytest

from sapwood import runtime
from sapwood.backends.protocol import HasBackend
from sapwood.errors import NotStarted, ProgramError
from sapwood.runtime import Runtime


class NoProcess:
    """Stands for the server's process."""

    def __init__(self, command, url, log_file, environment, folder):
        self.command, self.url, self.log_file, self.environment = command, url, log_file, environment
        self.folder = folder
        self.is_running = False

    def start(self, timeout_s):
        self.is_running = True

    def stop(self):
        self.is_running = False


@pytest.fixture
def at_exit(monkeypatch):
    """What runtimes would have called at the end of the process."""
    called = []
    monkeypatch.setattr(atexit, "register", called.append)
    monkeypatch.setattr(atexit, "unregister", lambda function: called.remove(function) if called else None)
    return called


@pytest.fixture
def no_process(monkeypatch, at_exit, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(runtime, "ServerProcess", NoProcess)
    monkeypatch.setattr(runtime, "free_port", lambda: 4321)


def options_of(started):
    """The command's options, of which each has a value here."""
    command = started._process.command
    options = command[command.index("sapwood.launch_server") + 1 :]
    return dict(zip(options[::2], options[1::2], strict=True))


@pytest.mark.parametrize("arguments", [{"target": "/models/m"}, {"model_path": "/models/m"}])
def test_a_model_is_served_on_a_free_port_of_this_machine(no_process, arguments):
    started = Runtime(**arguments, page_size=16)
    expected = {"--model-path": "/models/m", "--page-size": "16", "--host": "127.0.0.1", "--port": "4321"}
    assert options_of(started).items() >= expected.items()
    assert started.url == "http://127.0.0.1:4321"
    assert started._process.is_running
    started.shutdown()


@pytest.mark.parametrize("named", [{}, {"run_dir": None}])
def test_its_run_directory_is_its_own(no_process, tmp_path, named):
    started = Runtime(**named)
    folder = options_of(started)["--run-dir"]
    assert list(tmp_path.iterdir()) == [Path(folder)] == [started._process.folder]
    assert folder.startswith(f"{tmp_path}/sapwood-{os.getpid()}-")


def test_a_run_directory_that_is_named_is_taken_and_stays(no_process, tmp_path):
    started = Runtime(run_dir=tmp_path / "run")
    assert options_of(started)["--run-dir"] == f"{tmp_path}/run"
    assert started._process.folder is None


def test_without_a_model_it_is_the_server_s_own_default(no_process):
    assert "--model-path" not in options_of(Runtime())


@pytest.mark.parametrize(("host", "url"), [("0.0.0.0", "http://127.0.0.1:7"), ("::1", "http://[::1]:7")])
def test_where_it_is_reached(no_process, host, url):
    started = Runtime(host=host, port=7)
    assert started.url == url
    assert options_of(started)["--port"] == "7"


def test_it_ends_with_its_block_with_shutdown_or_with_the_process(no_process, at_exit):
    with Runtime() as started:
        assert started._process.is_running
        assert at_exit == [started._process.stop]
    assert not started._process.is_running
    assert at_exit == []
    started.shutdown()


def test_a_server_that_runs_already():
    with Runtime("http://localhost:30000/") as used:
        assert isinstance(used, HasBackend)
        assert used.url == "http://localhost:30000"
        assert used.log_file is None


@pytest.mark.parametrize("options", [{"model_path": "m"}, {"page_size": 16}])
def test_options_are_for_a_server_that_is_started(options):
    with pytest.raises(ProgramError, match="runs already"):
        Runtime("http://localhost:30000", **options)


def test_one_model():
    with pytest.raises(ProgramError, match="twice"):
        Runtime("a", model_path="b")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 2}, "tensor parallelism is not available"),
        ({"model_path": "/no/such/folder"}, "there is no /no/such/folder"),
        ({"no_such_option": 1}, "unrecognized arguments: --no-such-option"),
    ],
)
def test_why_a_server_does_not_start_is_told(options, said):
    with pytest.raises(NotStarted) as failure:
        Runtime(**options)
    assert said in str(failure.value)


@pytest.mark.parametrize("target", ["localhost:30000", "10.0.0.1:1/", "ftp://example.com/model"])
def test_an_address_that_is_no_url_is_no_model_either(target, no_process):
    with pytest.raises(ProgramError, match="a URL begins with http"):
        Runtime(target)


def test_a_url_in_capitals_is_one(no_process):
    assert Runtime("HTTP://127.0.0.1:9").log_file is None
