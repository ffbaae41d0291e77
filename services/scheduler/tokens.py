"""Token ids as arrays, which compare fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Tokens: TypeAlias = NDArray[np.int32]


def as_tokens(token_ids: Sequence[int]) -> Tokens:
    return np.array(token_ids, np.int32)


def common_tokens(ours: Tokens, theirs: Tokens) -> int:
    """Length of the common prefix."""
    length = min(len(ours), len(theirs))
    if not length:
        return 0
    differs = ours[:length] != theirs[:length]
    first = int(differs.argmax())
    return first if differs[first] else length
