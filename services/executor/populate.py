"""Has the kernel give a pool its memory ahead of use. The first write to a huge page is slow, and a short prompt writes
to one in each layer: so the first requests after a start would wait for a hundred megabytes each.

Knows addresses, and where an empty pool is used first (`slots`). Does not know which slot is in use: what is written
meanwhile stays.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections import deque
from collections.abc import Iterator

from torch import Tensor

from services.executor.kv_pool import KvPool

MADV_POPULATE_WRITE = 23  # since Linux 5.14; where it is refused, the first writes are slow
PIECE_BYTES = 2 << 20  # a huge page


def populate(pool: KvPool) -> threading.Thread:
    """The thread that does it, started. It may go on beside the steps."""
    thread = threading.Thread(target=_populate, args=(pool,), name="populate", daemon=True)
    thread.start()
    return thread


def _populate(pool: KvPool) -> None:
    if sys.platform != "linux" or pool.keys.device.type != "cpu":
        return
    madvise = ctypes.CDLL(None).madvise  # called without the GIL
    for start, end in _pieces(pool):
        if madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_POPULATE_WRITE):
            return


def _pieces(pool: KvPool) -> Iterator[tuple[int, int]]:
    """Of each layer those that are used first, then those that are used next: addresses [start, end), whole pages."""
    layers = [layer for tensor in (pool.keys, pool.values) for layer in tensor]
    for number in middles_first(-(-layers[0].nbytes // PIECE_BYTES)):
        for layer in layers:
            yield _piece(layer, number * PIECE_BYTES)


def _piece(layer: Tensor, offset: int) -> tuple[int, int]:
    start, end = layer.data_ptr() + offset, layer.data_ptr() + min(offset + PIECE_BYTES, layer.nbytes)
    return start // mmap.PAGESIZE * mmap.PAGESIZE, -(-end // mmap.PAGESIZE) * mmap.PAGESIZE


def middles_first(count: int) -> Iterator[int]:
    """All numbers below `count`: the middle one, then those of the halves, and so on."""
    spans = deque([(0, count)])
    while spans:
        start, end = spans.popleft()
        if start < end:
            middle = (start + end) // 2
            yield middle
            spans += (start, middle), (middle + 1, end)
