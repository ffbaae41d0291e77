"""A virtual environment for each peer, made once under the cache folder. Knows pip; starts no server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .registry import ENVIRONMENTS, VLLM_VERSION, Environment

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sapwood" / "bench"

REQUIREMENTS = """
import sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for wanted in map(Requirement, requires(sys.argv[1])):
    if (wanted.marker is None or wanted.marker.evaluate({"extra": ""})) and not wanted.name.startswith(sys.argv[2]):
        print(str(wanted).split(";")[0])
"""
VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


def folder(environment: str) -> Path:
    return CACHE / "peers" / environment


def is_installed(environment: str) -> bool:
    return (folder(environment) / "installed").exists()


def install(environment: Environment) -> None:
    """Raises CalledProcessError if it cannot be installed here."""
    place = folder(environment.name)
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    if environment.bare:
        _pip(place, "--no-deps", *environment.bare)
    wanted = list(environment.requirements)
    if environment.requirements_of:
        wanted += _python(place, REQUIREMENTS, environment.requirements_of, environment.without or "-").splitlines()
    _pip(place, *wanted)
    if environment.name == "vllm":
        _name_vllm(place)
    (place / "installed").touch()


def versions(environment: str) -> dict[str, str]:
    names = ENVIRONMENTS[environment].versions_of
    found: dict[str, str] = json.loads(_python(folder(environment), VERSIONS, *names))
    return found


def _name_vllm(place: Path) -> None:
    """Its command line looks itself up as `vllm`, and takes a version with "cpu" in it for a CPU build."""
    packages = next((place / "lib").glob("python*")) / "site-packages"
    metadata = packages / f"vllm-{VLLM_VERSION}+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM_VERSION}+cpu\n")


def _pip(place: Path, *arguments: str) -> None:
    subprocess.run([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments], check=True)


def _python(place: Path, program: str, *arguments: str) -> str:
    command = [str(place / "bin" / "python"), "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
