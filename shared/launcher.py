"""`sapwood serve`: every stage on this machine under one supervisor. `sapwood run STAGE`: one stage under its own.

Resolves the configuration once, prepares the model folder, writes both down in a private run directory, and hands
over to `shared.supervise`. Does not import any service: they are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import msgspec
import uvloop

from sapwood.output import until_the_reader_stops
from shared import config as configuration
from shared import flags, logging
from shared.announce import announce_ready
from shared.config import Config, ConfigError
from shared.cores import usable_cores
from shared.exposure import exposure
from shared.link_keys import make_keys
from shared.log_files import log_file
from shared.model_card import source_path
from shared.service import EXIT_CONFIG
from shared.supervise import ProcessSpec, Supervisor


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sapwood")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="start every stage on this machine")
    flags.add_arguments(serve)
    run = commands.add_parser("run", help="start one stage, restarted when it dies (for containers)")
    run.add_argument("service", choices=flags.SERVICES)
    flags.add_arguments(run)
    prepare = commands.add_parser("prepare", help="convert and compile once, so that later starts are quick")
    flags.add_arguments(prepare)
    keys = commands.add_parser("link-keys", help="make the keys of the links between machines")
    keys.add_argument("folder", type=Path, help="where; what is there already is kept")
    arguments = parser.parse_args(argv)
    try:
        return _dispatch(arguments)
    except ConfigError as error:
        print(f"sapwood: {flags.named(str(error))}", file=sys.stderr)
        return EXIT_CONFIG


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command == "link-keys":
        make_keys(arguments.folder)
        return 0
    config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    source_path(config.model)
    if arguments.command == "serve":
        _check_port(config)
    with _run_directory(config) as config:
        if arguments.command == "serve":
            config = _keeping_logs(config)
        name = f"{arguments.service}-{socket.gethostname()}" if arguments.command == "run" else ""  # containers differ
        _log_as(f"supervisor-{name}" if name else "supervisor", config)
        prepared = _prepare(_write_config(config))
        config = msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, prepared=prepared))
        if arguments.command == "prepare":
            _warm_up(_write_config(config))
            return 0
        if arguments.command == "serve":
            config = _share_cores(config)
        config_file = _write_config(config)
        if arguments.command == "run":
            return uvloop.run(_supervise(config, [_spec(arguments.service, name, config_file)]))
        return uvloop.run(_supervise(config, _all_specs(config, config_file), announce=True))


@contextlib.contextmanager
def _run_directory(config: Config) -> Iterator[Config]:
    """The configuration with a run directory that is ours alone; a temporary one is removed after."""
    if config.run_dir:
        with _lock(Path(config.run_dir)):
            yield config
        return
    _remove_stale_directories()
    folder = tempfile.mkdtemp(prefix=f"sapwood-{os.getpid()}-")
    try:
        yield msgspec.structs.replace(config, run_dir=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lock(run_dir: Path) -> TextIO:
    """Make the run directory ours until the file returned is closed: two deployments in one would mix up."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if run_dir.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(f"run_dir: others may put files into {run_dir}; chmod 700 it")
        lock = (run_dir / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(f"run_dir: another sapwood uses {run_dir}") from error
    except OSError as error:
        raise ConfigError(f"run_dir: {error}") from error
    return lock


def _remove_stale_directories() -> None:
    """What supervisors that were killed could not remove themselves."""
    for folder in Path(tempfile.gettempdir()).glob("sapwood-*-*"):
        owner = folder.name.split("-")[1]
        with contextlib.suppress(FileNotFoundError):  # another launcher was faster
            if owner.isdigit() and folder.stat().st_uid == os.getuid() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _write_config(config: Config) -> Path:
    path = Path(config.run_dir) / "config.yaml"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)  # there are keys in it
    path.write_bytes(configuration.dump(config))
    return path


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    # -P: a folder named services where the user stands must not shadow ours
    return (sys.executable, "-P", "-m", module, *arguments)


def _prepare(config_file: Path) -> str:
    """The prepared folder."""
    command = _python("services.executor.model.prepare", "--config", str(config_file))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ConfigError("the model could not be prepared")
    return done.stdout.strip()


def _warm_up(config_file: Path) -> None:
    """Compile what computes the model, if that was not done before."""
    if subprocess.run(_python("services.executor.warm_up", "--config", str(config_file))).returncode != 0:
        raise ConfigError("what computes the model could not be compiled")


def _spec(service: str, name: str, config_file: Path, module: str | None = None) -> ProcessSpec:
    argv = _python(module or f"services.{service}", "--config", str(config_file), "--name", name)
    return ProcessSpec(name, argv, stop_rank=0 if service == "gateway" else 1)


def _keeping_logs(config: Config) -> Config:
    """In the run directory, unless told otherwise."""
    if config.logging.directory is not None:
        return config
    return msgspec.structs.replace(config, logging=msgspec.structs.replace(config.logging, directory="{run_dir}/logs"))


def _log_as(name: str, config: Config) -> None:
    settings = config.logging
    file = log_file(settings, config.run_dir, name)
    logging.configure(name, level=settings.level, json_lines=settings.format == "json", file=file)


def _share_cores(config: Config) -> Config:
    """Several executors on one machine would each take all of it; a single one finds out itself."""
    executor = config.executor
    if executor.threads is not None or executor.replicas == 1:
        return config
    threads = max(1, usable_cores() // executor.replicas)
    return msgspec.structs.replace(config, executor=msgspec.structs.replace(executor, threads=threads))


def _all_specs(config: Config, config_file: Path) -> list[ProcessSpec]:
    replicas = {
        "tokenizer": config.tokenizer.replicas,
        "executor": config.executor.replicas,
        "detokenizer": config.detokenizer.replicas,
    }
    modules = {"executor": config.executor.module}
    return [
        _spec(service, f"{service}-{number}" if service in replicas else service, config_file, modules.get(service))
        for service in flags.SERVICES
        for number in range(1, replicas.get(service, 1) + 1)
    ]


def _check_port(config: Config) -> None:
    if config.gateway.port == 0:
        raise ConfigError("--port 0: name a port")
    if found := exposure(config.gateway):
        raise ConfigError(found)
    family = socket.AF_INET6 if ":" in config.gateway.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.gateway.host, config.gateway.port))
        except OSError as error:
            where = f"{config.gateway.host}:{config.gateway.port}"
            raise ConfigError(f"cannot listen on {where}: {error.strerror}; choose another --port") from error


async def _supervise(config: Config, specs: list[ProcessSpec], *, announce: bool = False) -> int:
    stopping = asyncio.Event()
    supervisor = Supervisor(specs, config.supervisor, Path(config.run_dir) / "status")

    def on_signal() -> None:
        if stopping.is_set():
            supervisor.end_now()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await supervisor.start()
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(supervisor.fatal())]
    announcing = asyncio.create_task(announce_ready(config)) if announce else None
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if stopping.is_set() else await supervisor.fatal()
    if announcing is not None:
        announcing.cancel()
    await supervisor.stop()
    for wait in waits:
        wait.cancel()
    return code


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
