"""`sapwood serve`: every stage on this machine under one supervisor. `sapwood run STAGE`: one stage under its own.

Resolves the configuration once, prepares the model folder, writes both down in the run directory, and hands over to
`shared.supervise`. Does not import any service: they are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from sapwood.output import until_the_reader_stops
from shared import config as configuration
from shared import flags, logging, run_dir
from shared.announce import announce_ready
from shared.config import Config, ConfigError
from shared.cores import usable_cores
from shared.exposure import exposure
from shared.link_keys import make_keys
from shared.log_files import log_file
from shared.model_card import source_path
from shared.service import EXIT_CONFIG
from shared.supervise import GivenUp, ProcessSpec, Supervisor
from shared.terminal import Terminal

NAME = re.compile(r"[\w-]{1,64}", re.ASCII)  # of a process, and of the files of it


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sapwood")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="start every stage on this machine")
    flags.add_arguments(serve)
    run = commands.add_parser("run", help="start one stage, restarted when it dies (for containers)")
    run.add_argument("service", choices=flags.SERVICES)
    run.add_argument("--name", type=_name, help="what this process is called in logs (STAGE-HOST)")
    flags.add_arguments(run)
    prepare = commands.add_parser("prepare", help="convert and compile once, so that later starts are quick")
    flags.add_arguments(prepare, flags.OF_A_MODEL)
    keys = commands.add_parser("link-keys", help="make the keys of the links between machines")
    keys.add_argument("folder", type=Path, help="where; what is there already is kept")
    arguments = parser.parse_args(argv)
    try:
        return _dispatch(arguments)
    except ConfigError as error:
        print(f"sapwood: {flags.named(str(error))}", file=sys.stderr)
        return EXIT_CONFIG


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("letters, digits, - and _ only, 64 at most")
    return text


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command == "link-keys":
        make_keys(arguments.folder)
        return 0
    config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    source_path(config.model)
    run_dir.remove_stale()
    if arguments.command == "serve":
        _check_port(config)
        with run_dir.lasting(config) as config:
            return _serve(config)
    with run_dir.named_or_temporary(config) as config:
        if arguments.command == "prepare":
            return _prepare_alone(config)
        return _run(config, arguments.service, arguments.name or f"{arguments.service}-{socket.gethostname()}")


def _serve(config: Config) -> int:
    config = _share_cores(_prepared(_keeping_logs(config), "supervisor"))
    return uvloop.run(_supervise(config, _all_specs(config, _write_config(config)), announce=True))


def _run(config: Config, service: str, name: str) -> int:
    config = _prepared(config, f"supervisor-{name}")
    return uvloop.run(_supervise(config, [_spec(service, name, _write_config(config))]))


def _prepare_alone(config: Config) -> int:
    _warm_up(_write_config(_prepared(config, "supervisor")))
    return 0


def _prepared(config: Config, supervisor: str) -> Config:
    """With the model's folder made; from here on there are logs."""
    _log_as(supervisor, config)
    folder = _prepare(_write_config(config))
    return msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, prepared=folder))


def _write_config(config: Config) -> Path:
    path = run_dir.config_file(config.run_dir)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
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
    is_gateway = service == "gateway"
    return ProcessSpec(name, argv, stop_rank=0 if is_gateway else 1, reads_at_hangup=is_gateway)


def _keeping_logs(config: Config) -> Config:
    """In the run directory, unless told otherwise."""
    if config.logging.directory is not None:
        return config
    return msgspec.structs.replace(config, logging=msgspec.structs.replace(config.logging, directory="{run_dir}/logs"))


def _log_as(name: str, config: Config) -> None:
    settings = config.logging
    file = log_file(settings, config.run_dir, name)
    logging.configure(name, level=settings.level, form=settings.format, file=file)


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
    supervisor = Supervisor(specs, config.supervisor, Path(config.run_dir) / "status")
    stopping = _told_to_stop(supervisor)
    await supervisor.start()
    announcing = asyncio.create_task(announce_ready(config)) if announce else None
    given_up = await _given_up(supervisor, stopping)
    if announcing is not None:
        announcing.cancel()
    await supervisor.stop()
    if given_up is None:
        return 0
    logging.drain()
    print(f"sapwood: {given_up.process} cannot start: {flags.named(given_up.reason)}", file=sys.stderr)
    return given_up.code


def _told_to_stop(supervisor: Supervisor) -> asyncio.Event:
    """Set at the first signal to stop; a second one ends all at once."""
    stopping, terminal, loop = asyncio.Event(), Terminal(), asyncio.get_running_loop()

    def on_signal() -> None:
        if stopping.is_set():
            supervisor.end_now()
        stopping.set()

    def on_hangup() -> None:
        if terminal.is_gone():
            stopping.set()  # the kernel and the shell may both say so
        else:
            supervisor.hang_up()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    return stopping


async def _given_up(supervisor: Supervisor, stopping: asyncio.Event) -> GivenUp | None:
    """None if it was told to stop first."""
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(supervisor.fatal())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return None if stopping.is_set() else await supervisor.fatal()


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
