"""Where the server's code is, in the wheel or in a checkout, and what it needs. Imports nothing of it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

SERVER_MODULES = ("aiohttp", "limits", "structlog", "tokenizers", "torch", "uvloop", "yaml", "zmq")
INSTALL = "pip install '.[server]'"  # in a clone


def server_root() -> Path:
    """The folder that holds the packages `services` and `shared`: inside the wheel, or the checkout."""
    package = Path(__file__).resolve().parent
    packaged = package / "_server"
    return packaged if packaged.is_dir() else package.parent


def server_path() -> str:
    """The PYTHONPATH of its processes."""
    package_parent = Path(__file__).resolve().parent.parent
    places = [str(server_root()), str(package_parent), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(dict.fromkeys(filter(None, places)))


def missing_server_modules() -> list[str]:
    return [name for name in SERVER_MODULES if importlib.util.find_spec(name) is None]
