"""The run directory, where sockets, status files and logs of a deployment lie: which one, and that it is ours alone.

`sapwood serve` has one that stays, for each port of each machine: its logs outlast it, `sapwood health` finds it. The
other commands take a temporary one. Whoever names a run directory has that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from sapwood.local_server import local_run_dir
from shared.config import Config, ConfigError


def config_file(run_dir: str | Path) -> Path:
    """The resolved configuration, for the processes that are started. There may be keys in it, so it does not stay."""
    return Path(run_dir) / "config.yaml"


def of_server(config: Config) -> Path:
    """That of `sapwood serve`."""
    return Path(config.run_dir) if config.run_dir else local_run_dir(config.gateway.port)


@contextlib.contextmanager
def lasting(config: Config) -> Iterator[Config]:
    """The configuration with the run directory of `sapwood serve`, which is ours alone until the block ends."""
    folder = of_server(config)
    with _ours(folder):
        yield msgspec.structs.replace(config, run_dir=str(folder))


@contextlib.contextmanager
def named_or_temporary(config: Config) -> Iterator[Config]:
    """The same with the one that is named; else with one that is removed at the end."""
    if config.run_dir:
        with _ours(Path(config.run_dir)):
            yield config
        return
    folder = tempfile.mkdtemp(prefix=f"sapwood-{os.getpid()}-")
    try:
        yield msgspec.structs.replace(config, run_dir=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale() -> None:
    """Temporary ones, of processes that were killed and so could not remove them themselves."""
    for folder in Path(tempfile.gettempdir()).glob("sapwood-*-*"):
        owner = folder.name.split("-")[1]
        with contextlib.suppress(FileNotFoundError):  # another launcher was faster
            if owner.isdigit() and folder.stat().st_uid == os.getuid() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _ours(run_dir: Path) -> Iterator[None]:
    """Two deployments in one would mix up."""
    with _lock_file(run_dir) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f"run_dir: another sapwood uses {run_dir}; name another one with --run-dir") from error
        except OSError as error:  # not in every file system
            raise ConfigError(f"run_dir: {error}; name another one with --run-dir") from error
        try:
            yield
        finally:
            config_file(run_dir).unlink(missing_ok=True)


def _lock_file(run_dir: Path) -> TextIO:
    """In the directory, which is made if it is not there."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if run_dir.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(f"run_dir: others may put files into {run_dir}; chmod 700 it")
        return (run_dir / "lock").open("w")
    except OSError as error:
        raise ConfigError(f"run_dir: {error}; name another one with --run-dir") from error
