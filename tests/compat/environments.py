"""A client's own environment: exactly what its folder pins, installed once for each change of the pins.

Knows pip and npm. Nothing of the project's own environment can be seen from inside.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

CACHE = Path("~/.cache/sapwood/compat").expanduser()


def python_of(client: Path) -> Path:
    """The interpreter of an environment with what `requirements.lock` lists, and no more."""
    return _environment(client, "requirements.lock", _install_python) / "bin/python"


def node_modules_of(client: Path) -> Path:
    """What `package-lock.json` lists."""
    return _environment(client, "package-lock.json", _install_node) / "node_modules"


def _environment(client: Path, lock: str, install: Callable[[Path, Path], None]) -> Path:
    facts = (client / lock).read_bytes() + sys.version.encode()
    folder = CACHE / f"{client.name}-{hashlib.sha256(facts).hexdigest()[:12]}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            building = Path(temporary) / client.name
            install(client, building)
            os.rename(building, folder)
    return folder


def _install_python(client: Path, target: Path) -> None:
    venv.create(target, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(target / "bin/python"), "--quiet", "install"]
    _run([*pip, "--no-compile", "--no-deps", "-r", str(client / "requirements.lock")])


def _install_node(client: Path, target: Path) -> None:
    target.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(client / name, target)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(target)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
