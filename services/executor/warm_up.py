"""Has the forward pass compiled, so that later starts find it on disk: `python -m services.executor.warm_up`.

For whoever prepares a machine or an image. Knows how an engine is loaded, and keeps nothing of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from services.executor.engines import load_engine
from shared import logging
from shared.config import ConfigError, load
from shared.cores import usable_cores
from shared.model_card import prepared_folder
from shared.service import die_with_parent


def main() -> None:
    die_with_parent()
    parser = argparse.ArgumentParser(prog="warm_up", description="Compile what computes the configured model.")
    parser.add_argument("--config", type=Path, help="the configuration file (YAML)")
    config = load(parser.parse_args().config)
    logging.configure("prepare", level=config.logging.level, form=config.logging.format)
    device = torch.device(config.executor.device)
    if device.type != "cpu":  # what a device runs is compiled on it
        return
    try:
        load_engine(config.executor, prepared_folder(config.model), device, config.executor.threads or usable_cores())
    except ConfigError as error:
        sys.exit(f"sapwood: {error}")


if __name__ == "__main__":
    main()
