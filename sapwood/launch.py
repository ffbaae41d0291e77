"""The `sapwood` command. What needs no server is in `sapwood.commands`; for the rest it finds the server's code, in the
wheel or in a checkout, and hands over to it.

Imports nothing of the server, so that the SDK alone can say what is missing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from sapwood._version import __version__
from sapwood.output import until_the_reader_stops
from sapwood.server_code import INSTALL, missing_server_modules, server_path

EXIT_USAGE = 2
EXIT_UNAVAILABLE = 69

CLIENT_COMMANDS = {
    "chat": "talk to the model of a server that runs",
    "generate": "one prompt, one answer or several",
    "bench": "load on a server, and its figures",
    "top": "the counters of a server, live",
    "dashboard": "what a server does, drawn from its log, in the browser",
    "log": "all log lines about one request, in order",
    "trace": "the graph of a program written with the SDK",
    "keys": "make API keys for a server, list and revoke them",
    "doctor": "look over a deployment, and say what to mend",
}
SERVER_COMMANDS = {
    "serve": "start every stage on this machine",
    "run": "start one stage, restarted when it dies (for containers)",
    "prepare": "convert the model and compile what computes it, so that later starts are quick",
    "link-keys": "make the keys of the links between machines",
    "health": "exit 0 if the processes of the run directory make progress",
    "reload": "let the gateway read its files of keys anew",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    return until_the_reader_stops(lambda: _command(given))


def _command(arguments: list[str]) -> int:
    if arguments in (["--version"], ["version"]):
        print(f"sapwood {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] in CLIENT_COMMANDS:
        command = importlib.import_module(f"sapwood.commands.{arguments[0]}")
        return int(command.main(arguments[1:]))
    if arguments[0] not in SERVER_COMMANDS:
        print(f"sapwood: there is no command {arguments[0]}\n\n{overview()}", file=sys.stderr)
        return EXIT_USAGE
    if missing := missing_server_modules():
        print(
            f"sapwood: the server needs {', '.join(missing)}; in a clone of Sapwood: {INSTALL}",
            file=sys.stderr,
        )
        return EXIT_UNAVAILABLE
    return _hand_over(arguments)


def overview() -> str:
    commands = [f"  {name:<10}{text}" for name, text in (SERVER_COMMANDS | CLIENT_COMMANDS).items()]
    return "\n".join(["usage: sapwood COMMAND …", "", *commands, "", "sapwood COMMAND --help says what each can do."])


def _hand_over(arguments: list[str]) -> NoReturn:
    os.environ["PYTHONPATH"] = server_path()
    sys.stdout.flush()
    # -P: a folder named services where the user stands must not shadow ours
    command, *options = arguments
    own = command in ("health", "reload")
    module = [f"shared.{command}", *options] if own else ["shared.launcher", *arguments]
    os.execv(sys.executable, [sys.executable, "-P", "-m", *module])


if __name__ == "__main__":
    sys.exit(main())
