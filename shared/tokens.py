"""Runs of token ids as arrays: what two of them have in common, and the whole pages in so many tokens.

Scheduler and executor count in the same pages and match by the same rule. Knows numbers only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def common_tokens(ours: NDArray[np.signedinteger[Any]], theirs: NDArray[np.signedinteger[Any]]) -> int:
    """Length of the common prefix."""
    length = min(len(ours), len(theirs))
    if not length:
        return 0
    differs = ours[:length] != theirs[:length]
    first = int(differs.argmax())
    return first if differs[first] else length


def pages_down(tokens: int, page_size: int) -> int:
    """The whole pages among the tokens."""
    return tokens // page_size * page_size


def pages_up(tokens: int, page_size: int) -> int:
    """The tokens rounded up to whole pages."""
    return -(-tokens // page_size) * page_size
