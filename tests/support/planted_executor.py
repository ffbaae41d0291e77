"""The real executor around a model that cannot compute one token: whoever has it in the prompt fails, in every batch.

Run as `executor.module`.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from torch import Tensor

from services.executor import assembly
from services.executor.engines import load_engine
from services.executor.model.forward import Batch
from services.executor.server import build
from shared.service import main

BAD_TOKEN = 48_111


class Planted:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        if BAD_TOKEN in batch.token_ids.tolist():
            raise RuntimeError("planted")
        logits: Tensor = self._engine.forward(batch, keys, values)
        return logits


if __name__ == "__main__":
    with patch.object(assembly, "load_engine", lambda *arguments: Planted(load_engine(*arguments))):
        main("executor", build)
