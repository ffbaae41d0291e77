"""What the commands about a server of this machine have in common: the flags that say which one, by its run directory.

Some are asked every few seconds in a container, so it imports next to nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shared import config as configuration
from shared import flags
from shared.config import ConfigError
from shared.run_dir import of_server

EXIT_CONFIG = 78


def about_server(name: str, argv: Sequence[str] | None, command: Callable[[Path], int]) -> int:
    """The exit code. Without a run directory, it is that of `sapwood serve` with the port."""
    parser = argparse.ArgumentParser(prog=f"sapwood {name}")
    flags.add_arguments(parser, flags.OF_A_PLACE)
    arguments = parser.parse_args(argv)
    try:
        config = configuration.load(arguments.config, environment=os.environ, overrides=flags.overrides(arguments))
    except ConfigError as error:
        sys.stderr.write(f"sapwood: {flags.named(str(error))}\n")
        return EXIT_CONFIG
    return command(of_server(config))
