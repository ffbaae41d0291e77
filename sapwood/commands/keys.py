"""`sapwood keys`: makes API keys, shows whose there are in a file, and takes them away again. Needs no server.

The file holds digests, so who reads it has no key.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood.commands.key_file import Entry, append, entries, remove

PREFIX = "sk-sapwood-"  # so that scanners of repositories know what they have found
KEY_BYTES = 32
SHOWN_CHARACTERS = 16  # of a digest, which tell two keys apart
HASHED = "sha256:"
EXIT_FAILED = 1

TAKEN_IN = "a server that runs takes it in at SIGHUP: sapwood reload"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    commands = {"new": _new, "list": _list, "revoke": _revoke}
    try:
        return commands[arguments.command](arguments)
    except OSError as error:
        return _failed(f"{arguments.file}: {error.strerror}")
    except UnicodeDecodeError:
        return _failed(f"{arguments.file} is no text")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood keys", description="API keys.")
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="make a key", description="Make a key, and the line that stands for it.")
    new.add_argument("name", type=_name, help="whose it is: letters, digits, - and _; who has a key gets another one")
    new.add_argument("--file", type=Path, help="append the line to this file")
    shown = commands.add_parser("list", help="whose keys there are", description="Whose keys there are, oldest first.")
    shown.add_argument("--file", type=Path, required=True, help="of gateway.api_keys_file")
    revoke = commands.add_parser("revoke", help="take keys away", description="Take the keys of a name away.")
    revoke.add_argument("name", help="whose")
    revoke.add_argument("--file", type=Path, required=True, help="of gateway.api_keys_file")
    revoke.add_argument("--old", action="store_true", help="all but the newest")
    return parser.parse_args(argv)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("a name has letters, digits, - and _ only, 64 at most")
    return text


def _new(arguments: argparse.Namespace) -> int:
    """The key alone goes to stdout, so that it can be sent to a file."""
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    line = f"{arguments.name}: {HASHED}{hashlib.sha256(key.encode()).hexdigest()}"
    if arguments.file is None:
        _say(f"the key, for the client, is shown only here; its line, for gateway.api_keys_file:\n  {line}")
    else:
        append(arguments.file, line)
        _say_next(arguments.file, arguments.name)
    print(key)
    return 0


def _say_next(path: Path, name: str) -> None:
    keys = len(_of(path, name))
    if keys > 1:
        _say(f"{name} has {keys} keys now; sapwood keys revoke {name} --old --file {path} leaves the new one")
    _say(TAKEN_IN)


def _list(arguments: argparse.Namespace) -> int:
    for name, key in entries(arguments.file):
        print(f"{name:<24} {key[:SHOWN_CHARACTERS] + '…' if key.startswith(HASHED) else 'as it is, no digest'}")
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    path, name = arguments.file, arguments.name
    found = _of(path, name)
    if not found:
        return _failed(f"no key in {path} is called {name}")
    going = found[:-1] if arguments.old else found
    if not going:
        return _failed(f"{name} has one key, and no older one")
    remove(path, lambda entry: entry in going)
    _say(f"{len(going)} gone, {len(found) - len(going)} left of {name}; {TAKEN_IN}")
    return 0


def _of(path: Path, name: str) -> list[Entry]:
    return [entry for entry in entries(path) if entry.name == name]


def _say(words: str) -> None:
    print(words, file=sys.stderr)


def _failed(reason: str) -> int:
    _say(f"sapwood keys: {reason}")
    return EXIT_FAILED
