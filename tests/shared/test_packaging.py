"""The wheel: the SDK on top, the server's packages below `sapwood/_server`, nothing of ours at the top level."""

import os
import subprocess
import sys
import zipfile

import pytest


@pytest.fixture(scope="module")
def unpacked(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_only_sapwood_lies_at_the_top(unpacked):
    assert {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")} == {"sapwood"}
    for file in ("services/gateway/app.py", "shared/wire.py", "configs/default.yaml"):
        assert (unpacked / "sapwood" / "_server" / file).is_file()


def test_the_command_works_beside_a_folder_named_services(unpacked, tmp_path):
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("raise RuntimeError('not ours')")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sapwood", "health", "--run-dir", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "no process" in done.stdout
