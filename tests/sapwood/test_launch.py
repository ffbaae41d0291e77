"""The command without its server: what it offers, and what it says of what it does not."""

import os
import subprocess
import sys

import pytest

from sapwood import launch
from sapwood.output import EXIT_BROKEN_PIPE


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["-h"]])
def test_the_overview_names_every_command(arguments, capsys):
    assert launch.main(arguments) == 0
    out = capsys.readouterr().out
    of_a_server = ("serve", "run", "prepare", "health")
    for command in (*of_a_server, "chat", "generate", "bench", "top", "log", "trace", "keys", "doctor"):
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", launch.CLIENT_COMMANDS)
def test_what_needs_no_server_runs_without_its_modules(command, monkeypatch, capsys):
    monkeypatch.setattr(launch, "missing_server_modules", lambda: ["torch"])
    with pytest.raises(SystemExit) as ended:
        launch.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: sapwood {command}" in capsys.readouterr().out


def test_what_needs_the_server_says_so(monkeypatch, capsys):
    monkeypatch.setattr(launch, "missing_server_modules", lambda: ["torch"])
    assert launch.main(["serve"]) == launch.EXIT_UNAVAILABLE
    assert "pip install '.[server]'" in capsys.readouterr().err


def test_a_command_that_there_is_not(capsys):
    assert launch.main(["srve"]) == launch.EXIT_USAGE
    assert "there is no command srve" in capsys.readouterr().err


LONG = """
from sapwood import function

@function
def long(s):
    forks = s.fork({lines})
    forks += "a"
"""


@pytest.mark.parametrize("lines", [1, 5000], ids=["at the end", "midway"])
def test_a_reader_that_stops_is_no_error(lines, tmp_path):
    """What is little comes to the pipe only when the command ends."""
    (tmp_path / "long.py").write_text(LONG.format(lines=lines))
    command = [sys.executable, "-m", "sapwood", "trace", f"{tmp_path}/long.py:long"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == EXIT_BROKEN_PIPE


@pytest.mark.parametrize("arguments", [["bench", "--help"], ["--help"], ["health"], ["serve", "--help"]])
def test_nor_is_it_of_any_command(arguments, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "sapwood", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SAPWOOD_RUN_DIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
