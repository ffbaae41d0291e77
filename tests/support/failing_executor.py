"""The real executor around a model that fails at some tokens, whoever has one in the prompt, in every batch.

It cannot compute one of them, dies at another, and hangs once at a third, while its event loop turns on. Run as
`executor.module`; for the third with HANGS_ONCE in the environment: a file that is removed when it hangs.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor

from services.executor import assembly
from services.executor.engines import load_engine
from services.executor.model.forward import Batch
from services.executor.server import build
from shared.service import main

BAD_TOKEN, CRASH_TOKEN, HANG_TOKEN = 48_109, 48_110, 48_111
MARK_VARIABLE = "HANGS_ONCE"


class Failing:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        token_ids = batch.token_ids.tolist()
        if BAD_TOKEN in token_ids:
            raise RuntimeError("planted")
        if CRASH_TOKEN in token_ids:
            os._exit(1)
        if HANG_TOKEN in token_ids:
            _hang_once(Path(os.environ[MARK_VARIABLE]))
        logits: Tensor = self._engine.forward(batch, keys, values)
        return logits


def _hang_once(mark: Path) -> None:
    if mark.exists():
        mark.unlink()
        threading.Event().wait()


if __name__ == "__main__":
    with patch.object(assembly, "load_engine", lambda *arguments: Failing(load_engine(*arguments))):
        main("executor", build)
