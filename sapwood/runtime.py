"""`Runtime`: a server to run programs on, started here and stopped again, or one that runs already."""

from __future__ import annotations

import atexit
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sapwood.backends.protocol import Backend
from sapwood.client import Client
from sapwood.errors import ProgramError
from sapwood.program import run
from sapwood.server_process import Option, ServerProcess, free_port, server_command
from sapwood.state import State

START_TIMEOUT_S = 600.0  # the first start of a model converts it
HOST = "127.0.0.1"
LIKE_AN_ADDRESS = re.compile(r"[\w.-]+:[0-9]+/*|\w+://.*")
SECRETS = {"api_key": "SAPWOOD_GATEWAY__API_KEYS", "admin_api_key": "SAPWOOD_GATEWAY__ADMIN_KEY"}


class Runtime:
    """With a model it starts a server on this machine, with a URL it uses the one that is there.

        with Runtime(model_path="bundled", page_size=16) as runtime:
            runtime.run(program)

    The server ends with `shutdown`, with the block, or with this process.

    Args:
        target: a URL, or else the same as `model_path`.
        model_path: a folder in Hugging Face format, a .gguf file, or "bundled".
        start_timeout_s: until it takes requests.
        log_file: gets all that the server prints; by default a temporary file.
        server_options: those of `sapwood serve`, with underscores; True for a switch, a list for what is given several
            times.

    Raises:
        NotStarted: with the server's last lines.
        ProgramError: options for a server that runs already.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | None = None,
        *,
        model_path: str | os.PathLike[str] | None = None,
        api_key: str | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        log_file: str | os.PathLike[str] | None = None,
        **server_options: Option,
    ) -> None:
        self._process: ServerProcess | None = None
        if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
            if model_path is not None or server_options:
                raise ProgramError(f"{target} runs already: a model and options are for a server that is started here")
            self.url = target.rstrip("/")
        else:
            if target is not None and model_path is not None:
                raise ProgramError("a model is given twice")
            if isinstance(target, str) and LIKE_AN_ADDRESS.fullmatch(target) and not Path(target).exists():
                raise ProgramError(f"{target} is no model, and a URL begins with http://")
            options = {"model_path": target or model_path, "api_key": api_key} | server_options
            self._process = _process(options, None if log_file is None else Path(log_file))
            self.url = self._process.url
            self._process.start(start_timeout_s)
            atexit.register(self._process.stop)
        self.client = Client(self.url, api_key=api_key)

    @property
    def backend(self) -> Backend:
        return self.client.backend

    @property
    def log_file(self) -> Path | None:
        """What the server prints, if it was started here."""
        return None if self._process is None else self._process.log_file

    def run(self, program: Callable[..., Any], *arguments: Any, stream: bool = False, **named: Any) -> State:
        """Run a program here, whatever the default backend is: one of `@function`, or a plain function."""
        return run(program, *arguments, backend=self, stream=stream, **named)

    def shutdown(self) -> None:
        """Stop what was started here. May be called again."""
        self.client.close()
        if self._process is not None:
            atexit.unregister(self._process.stop)
            self._process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def _process(options: dict[str, Option], log_file: Path | None) -> ServerProcess:
    """Listening on this machine alone, on a free port, unless the options say otherwise."""
    port = options.pop("port", None) or free_port()
    host = options.get("host") or HOST
    reached = {"0.0.0.0": HOST, "::": "[::1]"}.get(str(host), f"[{host}]" if ":" in str(host) else host)
    secrets = {SECRETS[name]: options.pop(name) for name in SECRETS if options.get(name) is not None}
    if isinstance(key := secrets.get("SAPWOOD_GATEWAY__API_KEYS"), str):
        secrets["SAPWOOD_GATEWAY__API_KEYS"] = [key]
    environment = {variable: json.dumps(value) for variable, value in secrets.items()}
    folder = None if options.get("run_dir") else _temporary_run_dir()
    command = server_command({**options, "host": host, "port": str(port), "run_dir": folder or options["run_dir"]})
    return ServerProcess(command, f"http://{reached}:{port}", log_file, environment, folder)


def _temporary_run_dir() -> Path:
    """By its name any later server on this machine sees that it may go, if this process ends before it can."""
    return Path(tempfile.mkdtemp(prefix=f"sapwood-{os.getpid()}-"))
