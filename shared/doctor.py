"""Looks over the configuration of a deployment and what it names on this machine, for `sapwood doctor`.

Prints findings as JSON. Reads files and modes, and starts, binds and changes nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sapwood.commands.findings import Finding, failed, ok, skipped, warning
from shared import config as configuration
from shared import flags
from shared.api_keys import HASHED, key_lines, limits_of_nobody, read_keys
from shared.config import Config, ConfigError, GatewayConfig
from shared.cores import usable_cores
from shared.exposure import exposure, has_keys
from shared.link_keys import ROLES, load_keys
from shared.model_card import prepared_folder, source_path
from shared.run_dir import of_server
from shared.status_files import status_files, troubles

LONGEST_SOCKET_PATH = 107  # of a socket in the file system, by the kernel
LEAST_DISK_BYTES = 1 << 30
GIB = 1 << 30


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="sapwood doctor")
    flags.add_arguments(parser)
    findings = list(check(parser.parse_args(argv)))
    sys.stdout.write(msgspec.json.encode(findings).decode())


def check(arguments: argparse.Namespace) -> Iterator[Finding]:
    try:
        config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    except ConfigError as error:
        yield failed("configuration", flags.named(str(error)), "each key is explained in configs/default.yaml")
        return
    yield ok("configuration", str(arguments.config or "the defaults, the environment and flags"))
    yield from check_keys(config.gateway)
    yield from check_links(config)
    yield from check_model(config)
    yield from check_run_dir(config)
    yield check_threads(config)


def check_keys(gateway: GatewayConfig) -> Iterator[Finding]:
    if found := exposure(gateway):
        yield failed("API keys", found, "sapwood keys new NAME --file FILE")
    elif not has_keys(gateway):
        yield ok("API keys", "none: open to whoever can reach it")
    elif gateway.admin_key is None and gateway.admin_key_file is None:
        fix = "give one with --admin-api-key-file, for /metrics, /cache and /server_info"
        yield warning("admin key", "none, so the admin routes are closed to all", fix)
    try:
        keys, _ = read_keys(gateway)
    except ConfigError as error:
        yield failed("API keys", str(error), "sapwood keys new NAME --file FILE makes one")
        return
    for about, path in (("API keys", gateway.api_keys_file), ("admin key", gateway.admin_key_file)):
        if path is not None:
            yield _secret(about, Path(path).expanduser())
    for name in limits_of_nobody(gateway, keys):
        names = ", ".join(sorted({key.name for key in keys if key.name is not None})) or "no key has one"
        fix = f"sapwood keys new {name}, or mend gateway.key_limits.names; the names are: {names}"
        yield warning("key limits", f"no key is called {name}", fix)


def _secret(about: str, path: Path) -> Finding:
    """Of a file that the gateway takes."""
    lines = key_lines(path).values()
    is_plain = not all(HASHED in line for line in lines)
    if is_plain and path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        return warning(about, f"everybody on this machine may read {path}", f"chmod 600 {path}")
    return ok(about, f"{len(lines)} in {path}")


def check_links(config: Config) -> Iterator[Finding]:
    """The keys of the roles whose folders are here: a machine has those of its own stages."""
    if config.links.keys_dir is None:
        yield ok("link keys", "none: sockets of this machine, or a private network")
        return
    folder = Path(config.links.keys_dir).expanduser()
    here = [role for role in ROLES if (folder / role).is_dir() and any((folder / role).iterdir())]
    if not here:
        yield failed(
            "link keys", f"there are none in {folder}", f"sapwood link-keys {folder}, and hand the folders out"
        )
    for role in here:
        try:
            load_keys(folder, role)
        except (ConfigError, OSError) as error:
            yield failed("link keys", str(error), "each folder has to be its stage's user's alone")
        else:
            yield ok("link keys", f"of the {role}, in {folder / role}")


def check_model(config: Config) -> Iterator[Finding]:
    try:
        source = source_path(config.model)
        prepared = prepared_folder(config.model)
    except (ConfigError, OSError) as error:
        yield failed("model", str(error), "name a folder in Hugging Face format or a .gguf file with --model-path")
        return
    if prepared.is_dir():
        yield ok("model", f"{source.name}, prepared in {prepared}")
        return
    yield warning("model", f"{source.name} is not prepared yet: the first start takes longer", "sapwood prepare")
    yield _space(Path(config.model.cache_dir).expanduser(), LEAST_DISK_BYTES + _size(source))


def _size(source: Path) -> int:
    files = source.rglob("*") if source.is_dir() else [source]
    return sum(file.stat().st_size for file in files if file.is_file())


def _space(folder: Path, needed: int) -> Finding:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        return failed("disk", f"user {os.getuid()} may not write to {existing}", "name another model.cache_dir")
    free = shutil.disk_usage(existing).free
    says = f"{free / GIB:.1f} GiB free at {existing}"
    if free < needed:
        return failed("disk", says, f"{needed / GIB:.1f} GiB are needed: make room, or name another model.cache_dir")
    return ok("disk", says)


def check_run_dir(config: Config) -> Iterator[Finding]:
    run_dir = of_server(config)
    if not config.run_dir and not run_dir.exists():
        yield skipped("processes", f"there is no {run_dir}", "give the --run-dir of the server, to see its processes")
        return
    if run_dir.exists() and run_dir.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield failed("run directory", f"others may put files into {run_dir}", f"chmod 700 {run_dir}")
    yield from _sockets(msgspec.structs.replace(config, run_dir=str(run_dir)))
    files, bad = status_files(run_dir), troubles(run_dir)
    if not files:
        yield failed("processes", f"none runs in {run_dir}", "sapwood serve, or another --run-dir")
    for name in (file.stem for file in files):
        yield failed(name, str(bad[name]), "its log lines say why") if name in bad else ok(name, "ready")


def _sockets(config: Config) -> Iterator[Finding]:
    for endpoint in (config.endpoint("front_bind"), config.endpoint("hub_bind")):
        path = endpoint.removeprefix("ipc://")
        if path != endpoint and len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
            yield failed("sockets", f"{path} is longer than {LONGEST_SOCKET_PATH} bytes", "take a shorter --run-dir")


def check_threads(config: Config) -> Finding:
    threads, cores = config.executor.threads, usable_cores()
    wanted = (threads or 1) * config.executor.replicas
    if threads is not None and wanted > cores:
        fix = f"executor.threads (--threads) {max(1, cores // config.executor.replicas)}, or leave it to the server"
        return warning("threads", f"{wanted} of executors on {cores} cores", fix)
    return ok("threads", f"{cores} cores for the executors")


if __name__ == "__main__":
    main()
