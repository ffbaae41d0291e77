"""The command without its server: what it offers, and what it says of what it does not."""

import pytest

from sapwood import launch


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"], ["-h"]])
def test_the_overview_names_every_command(arguments, capsys):
    assert launch.main(arguments) == 0
    out = capsys.readouterr().out
    for command in ("serve", "run", "prepare", "health", "chat", "generate", "bench", "top", "trace"):
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
    assert "pip install 'sapwood[server]'" in capsys.readouterr().err


def test_a_command_that_there_is_not(capsys):
    assert launch.main(["srve"]) == launch.EXIT_USAGE
    assert "there is no command srve" in capsys.readouterr().err
