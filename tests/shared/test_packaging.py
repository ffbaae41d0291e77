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


def test_without_extras_it_is_the_client_alone(unpacked):
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    needed = [line for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist:")]
    alone = {line.split()[1].partition(">")[0] for line in needed if "extra ==" not in line}
    assert alone == {"httpx", "msgspec"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-c", "import sapwood; print(sapwood.__version__)"], 0, "0."),
        (["-m", "sapwood", "--help"], 0, "usage: sapwood COMMAND"),
        (["-m", "sapwood", "serve"], 69, "pip install '.[server]'"),
    ],
)
def test_where_nothing_else_is_installed(unpacked, tmp_path, arguments, code, words):
    done = subprocess.run(
        [sys.executable, "-S", "-P", *arguments],  # -S: no packages but the wheel
        cwd=tmp_path,
        env={"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
