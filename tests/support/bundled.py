"""The bundled model's prepared folder, made once for all tests and runs."""

from functools import cache
from pathlib import Path

from services.executor.model.prepare import prepare
from shared.config import ModelConfig


@cache
def bundled_folder() -> Path:
    return prepare(ModelConfig())
