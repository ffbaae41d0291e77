"""`sapwood reload`: the gateway of a run directory reads its files of keys anew. What came of it is in its log."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood.output import until_the_reader_stops
from shared import config as configuration
from shared import flags
from shared.config import ConfigError
from shared.run_dir import of_server
from shared.status_files import status_files

EXIT_CONFIG = 78
EXIT_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sapwood reload")
    flags.add_arguments(parser, flags.OF_A_PLACE)
    arguments = parser.parse_args(argv)
    try:
        config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    except ConfigError as error:
        sys.stderr.write(f"sapwood: {flags.named(str(error))}\n")
        return EXIT_CONFIG
    return _reload(of_server(config))


def _reload(run_dir: Path) -> int:
    found = [json.loads(file.read_text()) for file in status_files(run_dir)]
    gateways = [process for process in found if process.get("reads_at_hangup")]
    ready = [gateway["pid"] for gateway in gateways if gateway["state"] == "ready"]
    for pid in ready:
        os.kill(pid, signal.SIGHUP)
    if not ready:
        none = "a gateway that starts reads its keys by itself" if gateways else "--run-dir or --port says which server"
        sys.stderr.write(f"sapwood: no gateway is ready in {run_dir}; {none}\n")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
