"""Where a server of this machine keeps sockets and logs, unless it is told otherwise. Knows names of folders alone."""

from __future__ import annotations

import socket
from pathlib import Path

STATE = "~/.local/state/sapwood"


def local_run_dir(port: int) -> Path:
    """Of the server that listens on the port. Machines may share a home, so it has the machine's name."""
    return Path(STATE).expanduser() / f"{socket.gethostname()}-{port}"


def local_logs(port: int) -> Path:
    return local_run_dir(port) / "logs"
