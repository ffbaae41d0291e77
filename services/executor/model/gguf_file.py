"""A GGUF file's metadata and tensors, by the names that the file itself uses.

Knows the container, read with the `gguf` library. Knows nothing of Hugging Face's names and shapes.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import gguf
import numpy as np
from numpy.typing import NDArray

from services.executor.model.stored import Stored, StoredKind
from shared.config import ConfigError

T = TypeVar("T")

MAGIC = b"GGUF"


class GgufFile:
    """Read-only; tensors stay on disk until they are asked for."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if the file cannot be read as GGUF, or is one part of several."""
        self.path = path
        _check_magic(path)
        try:
            self._reader = gguf.GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise ConfigError(f"{path} is no readable GGUF file: {error}") from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        if self.get("split.count", 1) > 1:
            raise ConfigError(f"{path} is one of {self.get('split.count', 1)} parts; merge them with gguf-split first")
        self.architecture: str = self.require("general.architecture")

    def get(self, key: str, default: T) -> T | Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        field = self._reader.fields.get(key)
        if field is None:
            raise ConfigError(f"{self.path}: the metadata has no {key}")
        return field.contents()

    def model(self, key: str, default: T) -> T | Any:
        """A value of the architecture's own section: `context_length` of a llama file is llama.context_length."""
        return self.get(f"{self.architecture}.{key}", default)

    def require_model(self, key: str) -> Any:
        return self.require(f"{self.architecture}.{key}")

    def __contains__(self, tensor_name: object) -> bool:
        return tensor_name in self._tensors

    def tensor_names(self) -> Iterator[str]:
        return iter(self._tensors)

    def stored(self, name: str) -> Stored | None:
        """A matrix as the file has it, on disk; None if it is none, or of a kind that is not kept as it is."""
        tensor = self._tensors[name]
        if tensor.data.ndim != 2 or tensor.tensor_type.name not in StoredKind.__members__:
            return None
        return Stored(StoredKind[tensor.tensor_type.name], tensor.data.view(np.uint8))

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Dequantised, (rows, columns) or (columns,), as torch orders them."""
        tensor = self._tensors[name]
        try:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            kind = tensor.tensor_type.name
            raise ConfigError(f"{self.path}: tensor {name} has unsupported quantization {kind}") from error
        return np.ascontiguousarray(values, dtype=np.float32)


def _check_magic(path: Path) -> None:
    """The library reads on after another one, and fails in words about something else."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(MAGIC))
    except OSError as error:
        raise ConfigError(f"{path} is no readable GGUF file: {error.strerror}") from error
    if begins != MAGIC:
        raise ConfigError(f"{path} is no GGUF file: it does not begin with {MAGIC.decode()}")
