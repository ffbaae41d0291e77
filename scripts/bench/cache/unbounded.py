"""What a cache would reuse that is never full and never late. Knows token ids only, nothing of pages or the server.

A request finds all that requests submitted before it hold, or will hold: of concurrent ones too, as if each waited for
those before it. At least one token of every prompt is computed, since its logits are needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from .trace import Record


def reused_tokens(records: Iterable[Record]) -> list[int]:
    """For each request, the prompt tokens that it finds. The records are in the order of submission."""
    held: defaultdict[str, list[bytes]] = defaultdict(list)
    return [_reuse(held[record.namespace], record) for record in records]


def _reuse(held: list[bytes], record: Record) -> int:
    """Look the prompt up in what is held, then put the request there.

    In sorted order, no sequence has more in common with another than one of its two neighbours has.
    """
    prompt = _sortable(record.prompt_ids[:-1])
    place = bisect_left(held, prompt)
    found = max((_common(prompt, other) for other in held[max(place - 1, 0) : place + 1]), default=0)
    whole = _sortable(record.token_ids)
    held.insert(bisect_left(held, whole), whole)
    return found


def _sortable(token_ids: Sequence[int]) -> bytes:
    """Bytes in the order of the tokens: big-endian, of one width."""
    return np.array(token_ids, ">u4").tobytes()


def _common(ours: bytes, theirs: bytes) -> int:
    """Tokens in the common prefix."""
    length = min(len(ours), len(theirs))
    differs = np.frombuffer(ours[:length], ">u4") != np.frombuffer(theirs[:length], ">u4")
    return int(differs.argmax()) if differs.any() else len(differs)
