"""`sapwood health`: whether the processes of a run directory make progress, by the supervisor's status files.

Without one it is that of `sapwood serve` on this machine and port.

Asked every few seconds in a container, so it imports next to nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sapwood.output import until_the_reader_stops
from shared import config as configuration
from shared import flags
from shared.config import ConfigError
from shared.run_dir import of_server
from shared.status_files import status_files, troubles

EXIT_CONFIG = 78


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sapwood health")
    flags.add_arguments(parser, flags.OF_A_PLACE)
    arguments = parser.parse_args(argv)
    try:
        config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    except ConfigError as error:
        sys.stderr.write(f"sapwood: {flags.named(str(error))}\n")
        return EXIT_CONFIG
    return _health(of_server(config))


def _health(run_dir: Path) -> int:
    bad = [f"{name} ({trouble})" for name, trouble in troubles(run_dir).items()]
    if bad or not status_files(run_dir):
        none = f"no process in {run_dir}; --run-dir or --port says which server"
        sys.stdout.write(f"not healthy: {', '.join(bad) or none}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(until_the_reader_stops(main))
