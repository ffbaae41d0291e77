"""The token ids of a request as an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Tokens: TypeAlias = NDArray[np.int32]


def as_tokens(token_ids: Sequence[int]) -> Tokens:
    return np.array(token_ids, np.int32)
