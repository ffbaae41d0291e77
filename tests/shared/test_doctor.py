import json

import pytest

from shared import doctor
from shared.config import load
from shared.link_keys import make_keys


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", "utf-8")
    return folder


def found(checks):
    return {finding.about: finding for finding in checks}


def configured(**overrides):
    return load(overrides={key.replace("__", "."): value for key, value in overrides.items()})


def test_what_it_prints_is_findings(capsys, model, tmp_path):
    doctor.main(["--model-path", str(model), "--set", f"model.cache_dir={tmp_path}", "--run-dir", str(tmp_path)])
    said = {finding["about"]: finding["level"] for finding in json.loads(capsys.readouterr().out)}
    assert (said["configuration"], said["model"], said["processes"]) == ("ok", "warning", "failed")


def test_a_key_that_there_is_not(capsys):
    doctor.main(["--set", "gateway.prot=1"])
    (only,) = json.loads(capsys.readouterr().out)
    assert only["level"] == "failed"
    assert "'port'" in only["says"]


@pytest.mark.parametrize(
    ("settings", "about", "level"),
    [
        ({}, "API keys", "ok"),
        ({"gateway__host": "0.0.0.0"}, "API keys", "failed"),
        ({"gateway__api_keys": ["k"]}, "admin key", "warning"),
        ({"gateway__api_keys_file": "/nowhere/keys"}, "API keys", "failed"),
        ({"gateway__api_keys": ["sha256:short"]}, "API keys", "failed"),
        ({"gateway__api_keys": ["alice: one"], "gateway__admin_key": "one"}, "API keys", "failed"),
        ({"gateway__api_keys": ["k"], "gateway__admin_key_file": "/nowhere/key"}, "API keys", "failed"),
        ({"gateway__api_keys": ["k"], "gateway__key_limits__names__nobody__cache_weight": 1}, "key limits", "warning"),
    ],
)
def test_keys(settings, about, level):
    assert found(doctor.check_keys(configured(**settings).gateway))[about].level == level


@pytest.mark.parametrize(
    ("text", "mode", "level"),
    [
        ("a: secret\n", 0o644, "warning"),
        ("a: secret\n", 0o600, "ok"),
        (f"a: sha256:{'0' * 64}\n", 0o644, "ok"),
        ("a: sha256:digest\n", 0o600, "failed"),
        ("a: one\na: two\n", 0o600, "ok"),
        ("a: one\nb: one\n", 0o600, "failed"),
        ("# nothing\n", 0o600, "failed"),
    ],
)
def test_a_file_of_keys(tmp_path, text, mode, level):
    path = tmp_path / "keys"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    config = configured(gateway__api_keys_file=str(path), gateway__admin_key="root")
    assert found(doctor.check_keys(config.gateway))["API keys"].level == level


def test_an_admin_key_that_is_none(tmp_path):
    path = tmp_path / "admin"
    path.write_text("the key, for the client:\n", "utf-8")
    config = configured(gateway__api_keys=["k"], gateway__admin_key_file=str(path))
    assert "line 1: this is no key" in found(doctor.check_keys(config.gateway))["API keys"].says


def test_link_keys(tmp_path):
    config = configured(links__keys_dir=str(tmp_path / "keys"))
    assert found(doctor.check_links(config))["link keys"].level == "failed"
    make_keys(tmp_path / "keys")
    assert {finding.level for finding in doctor.check_links(config)} == {"ok"}
    (tmp_path / "keys" / "executor" / "executor.key_secret").chmod(0o644)
    (bad,) = [finding for finding in doctor.check_links(config) if finding.level == "failed"]
    assert "executor.key_secret" in bad.says


def test_the_model(model, tmp_path):
    missing = found(doctor.check_model(configured(model__path=str(tmp_path / "none"))))
    assert missing["model"].level == "failed"
    there = found(doctor.check_model(configured(model__path=str(model), model__cache_dir=str(tmp_path))))
    assert (there["model"].level, there["disk"].level) == ("warning", "ok")
    assert there["model"].fix == "sapwood prepare"


def test_a_disk_that_is_full(tmp_path):
    assert doctor._space(tmp_path, 1 << 60).level == "failed"


def test_the_run_directory(tmp_path):
    tmp_path.chmod(0o777)
    config = configured(run_dir=str(tmp_path))
    assert found(doctor.check_run_dir(config))["run directory"].fix == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    status = tmp_path / "status"
    status.mkdir()
    for name, state in (("gateway", "ready"), ("executor-1", "waiting")):
        (status / f"{name}.json").write_text(json.dumps({"state": state, "restarts": 3}), "utf-8")
    checks = found(doctor.check_run_dir(config))
    assert (checks["gateway"].level, checks["executor-1"].level) == ("ok", "failed")


def test_a_path_that_is_too_long_for_a_socket():
    config = configured(run_dir="/tmp/" + "x" * 110)
    assert found(doctor.check_run_dir(config))["sockets"].level == "failed"


def test_more_threads_than_cores(monkeypatch):
    monkeypatch.setattr(doctor, "usable_cores", lambda: 4)
    assert doctor.check_threads(configured(executor__threads=3, executor__replicas=2)).level == "warning"
    assert doctor.check_threads(configured(executor__threads=2, executor__replicas=2)).level == "ok"
