"""`sapwood doctor`: looks over a deployment and says what to mend: the machine, its configuration, the server.

Works without the server's code, except for the configuration: that is looked over by `shared.doctor`, in a process of
its own, since what is broken may be an import.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from sapwood.commands import connection
from sapwood.commands.findings import Finding, as_json, failed, lines
from sapwood.commands.machine_checks import check_machine
from sapwood.commands.server_checks import check_server
from sapwood.commands.terminal import paint_for
from sapwood.server_code import INSTALL, missing_server_modules, server_path

TIMEOUT_S = 30.0
EXIT_FAILED, EXIT_USAGE = 1, 2


def main(argv: Sequence[str]) -> int:
    arguments, of_the_server = _parse(argv)
    missing = missing_server_modules()
    findings = check_machine(missing)
    if not missing:
        findings += _check_configuration(of_the_server)
    options: dict[str, Any] = connection.client_options(arguments)
    with httpx.Client(**options, timeout=TIMEOUT_S) as client:
        findings += check_server(client)
    print(as_json(findings) if arguments.json else "\n".join(lines(findings, paint_for(sys.stdout))))
    return EXIT_FAILED if any(finding.level == "failed" for finding in findings) else 0


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    description = "Looks over a deployment. Exits 1 if something has to be mended. Options of `sapwood serve`, such as"
    parser = argparse.ArgumentParser(
        prog="sapwood doctor",
        description=f"{description} --config FILE and --run-dir DIR, say what to look over on this machine.",
        allow_abbrev=False,
    )
    connection.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser.parse_known_args(argv)


def _check_configuration(arguments: Sequence[str]) -> list[Finding]:
    environment = os.environ | {"PYTHONPATH": server_path()}
    command = [sys.executable, "-P", "-m", "shared.doctor", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == EXIT_USAGE:  # an option that there is not
        sys.stderr.write(done.stderr)
        raise SystemExit(EXIT_USAGE)
    try:
        return msgspec.json.decode(done.stdout, type=list[Finding])
    except msgspec.DecodeError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [failed("the server's code", last, f"install it anew, in a clone: {INSTALL}")]
