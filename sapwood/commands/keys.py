"""`sapwood keys new NAME`: an API key, and the line that lets a server know it without holding it. Needs no server."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import secrets
import sys
from collections.abc import Sequence

PREFIX = "sk-sapwood-"  # so that scanners of repositories know what they have found
KEY_BYTES = 32
EXIT_FAILED = 1

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    line = f"{arguments.name}: sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    if arguments.file is None:
        print(f"the key, for the client; it is shown only here:\n  {key}")
        print(f"its line, for gateway.api_keys_file:\n  {line}")
        return 0
    try:
        _append(arguments.file, line)
    except OSError as error:
        print(f"sapwood keys: {arguments.file}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    print(key)
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood keys", description="API keys.")
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="make a key", description="Make a key, and the line that stands for it.")
    new.add_argument("name", type=_name, help="whose it is: letters, digits, - and _")
    new.add_argument("--file", help="append the line to this file, and print the key alone")
    return parser.parse_args(argv)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("a name has letters, digits, - and _ only, 64 at most")
    return text


def _append(path: str, line: str) -> None:
    """A new file is its owner's alone."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{line}\n")
