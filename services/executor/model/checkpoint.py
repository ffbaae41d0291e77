"""Tensors by name from a model folder's safetensors files, in the form in which they are stored there.

Knows that a matrix whose kind the file's metadata names is kept as bytes in that kind (`gguf_weights.py` writes those).
Knows nothing of what the names mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from services.executor.model.stored import Floats, Stored, StoredKind
from shared.config import ConfigError

_KINDS = {torch.float32: StoredKind.F32, torch.float16: StoredKind.F16, torch.bfloat16: StoredKind.BF16}


class Checkpoint:
    """What it gives is a view of the files, which stay mapped for as long as it is needed."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self._folder = folder
        opened = [
            files.enter_context(safe_open(path, framework="pt")) for path in sorted(folder.glob("model*.safetensors"))
        ]
        self._files = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (not a dict)
        self._kinds = {name: kind for file in opened for name, kind in (file.metadata() or {}).items()}

    def matrix(self, name: str, outputs: int, inputs: int) -> Stored:
        """Raises ConfigError if there is none, or one of another shape."""
        tensor = self._read(name)
        self._expect(name, tensor.dim() == 2)
        if name in self._kinds:
            matrix = Stored(StoredKind(self._kinds[name]), tensor.numpy())
        else:
            tensor = tensor if tensor.dtype in _KINDS else tensor.to(torch.float32)
            matrix = Stored(_KINDS[tensor.dtype], tensor.view(torch.uint8).numpy())
        self._expect(name, (matrix.outputs, matrix.inputs) == (outputs, inputs))
        return matrix

    def vector(self, name: str, length: int) -> Floats:
        """A copy in float32. Raises ConfigError as `matrix` does."""
        tensor = self._read(name)
        self._expect(name, tensor.shape == (length,))
        return np.array(tensor.to(torch.float32).numpy())

    def _read(self, name: str) -> Tensor:
        if name not in self._files:
            raise ConfigError(f"{self._folder}: the weights have no tensor {name!r}")
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.contiguous()

    def _expect(self, name: str, has_shape: bool) -> None:
        if not has_shape:
            raise ConfigError(f"{self._folder}: tensor {name!r} does not have the shape that config.json says")


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Checkpoint]:
    """Raises ConfigError if a file cannot be read."""
    with ExitStack() as files:
        try:
            checkpoint = Checkpoint(folder, files)
        except (SafetensorError, OSError) as error:
            raise ConfigError(f"{folder}: cannot read the weights: {error}") from error
        yield checkpoint
