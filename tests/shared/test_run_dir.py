import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shared import run_dir
from shared.config import ConfigError, load


@pytest.fixture(autouse=True)
def _folders_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def test_that_of_a_server_stays_and_the_configuration_in_it_does_not():
    with run_dir.lasting(load()) as config:
        folder = Path(config.run_dir)
        assert folder == run_dir.of_server(load())
        assert folder.stat().st_mode & 0o777 == 0o700
        run_dir.config_file(folder).write_text("admin_key: k")
        (folder / "logs").mkdir()
    assert {path.name for path in folder.iterdir()} == {"lock", "logs"}


def test_two_servers_have_one_each():
    with run_dir.lasting(load()) as one, run_dir.lasting(load(overrides={"gateway.port": 30001})) as other:
        assert one.run_dir != other.run_dir
    with run_dir.lasting(load()), pytest.raises(ConfigError, match="another sapwood"), run_dir.lasting(load()):
        pass


def test_a_file_system_without_locks_is_told_of(monkeypatch):
    def no_locks(_file, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(ConfigError, match=r"No locks available; name another one"), run_dir.lasting(load()):
        pass


def test_whoever_names_one_has_it(tmp_path):
    config = load(overrides={"run_dir": str(tmp_path / "mine")})
    for of_kind in (run_dir.lasting, run_dir.named_or_temporary):
        with of_kind(config) as ours:
            assert ours == config
        assert (tmp_path / "mine").is_dir()


def test_a_temporary_one_is_gone_at_the_end(tmp_path):
    with run_dir.named_or_temporary(load()) as config:
        assert Path(config.run_dir).parent == tmp_path / "tmp"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_temporary_ones_of_processes_that_are_gone_are_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for owner in (gone.pid, os.getpid()):
        (tmp_path / "tmp" / f"sapwood-{owner}-x").mkdir()
    run_dir.remove_stale()
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == [f"sapwood-{os.getpid()}-x"]
