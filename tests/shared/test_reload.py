"""Who is told to read anew."""

import json
import os
import signal

import pytest

from shared import reload


@pytest.fixture
def told(monkeypatch):
    """Who got which signal."""
    found = []
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    return found


@pytest.fixture
def write(tmp_path):
    def status(name, state, pid):
        (tmp_path / "status").mkdir(exist_ok=True)
        process = {"state": state, "pid": pid, "restarts": 0, "reads_at_hangup": "gateway" in name}
        (tmp_path / "status" / f"{name}.json").write_text(json.dumps(process), "utf-8")

    return status


def test_gateways_that_are_ready_and_nobody_else(tmp_path, told, write):
    write("gateway", "ready", 7)
    write("gateway-there", "starting", 8)
    write("executor-1", "ready", 9)
    assert reload.main(["--run-dir", str(tmp_path)]) == 0
    assert told == [(7, signal.SIGHUP)]


@pytest.mark.parametrize(("state", "says"), [("waiting", "reads its keys by itself"), (None, "which server")])
def test_no_gateway_is_ready(tmp_path, told, write, capsys, state, says):
    if state is not None:
        write("gateway", state, 7)
    assert reload.main(["--run-dir", str(tmp_path)]) == 1
    assert says in capsys.readouterr().err
    assert told == []


def test_what_a_server_that_was_killed_has_left_gets_no_signal(tmp_path, told, write):
    write("gateway", "ready", 7)
    os.utime(tmp_path / "status" / "gateway.json", (0, 0))
    assert reload.main(["--run-dir", str(tmp_path)]) == 1
    assert told == []


def test_a_gateway_that_has_just_ended_is_nothing_to_worry_about(tmp_path, monkeypatch, write):
    def gone(_pid, _number):
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    write("gateway", "ready", 7)
    assert reload.main(["--run-dir", str(tmp_path)]) == 0
