"""The bundled model's prepared folder and compiled kernels, made once for all tests and runs."""

from functools import cache
from pathlib import Path

import torch

from services.executor.engines import load_engine
from services.executor.model.prepare import prepare
from shared.config import ExecutorConfig, ModelConfig


@cache
def bundled_folder() -> Path:
    folder = prepare(ModelConfig())
    load_engine(ExecutorConfig(), folder, torch.device("cpu"), threads=1)  # compiles what is not compiled yet
    return folder
