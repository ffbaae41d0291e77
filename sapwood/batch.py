"""Many runs of one program, some at a time: in which order they begin, and how far they are. Knows no state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

DEFAULT_THREADS = 64
BAR_WIDTH = 40


def run_all(
    one: Callable[[Mapping[str, Any]], T],
    batch: Sequence[Mapping[str, Any]],
    *,
    names: Sequence[str] = (),
    num_threads: int | None = None,
    progress_bar: bool = False,
    out: TextIO | None = None,
) -> list[T]:
    """The results in the batch's order. An interrupt lets none begin that has not.

    Args:
        names: of the arguments, in the order in which a text begins with them.
    """
    if not batch:
        return []
    pool = ThreadPoolExecutor(min(num_threads or DEFAULT_THREADS, len(batch)), thread_name_prefix="sapwood-batch")
    try:
        futures = {place: pool.submit(one, batch[place]) for place in grouped(batch, names)}
        for done, _ in enumerate(as_completed(futures.values()), 1):
            if progress_bar:
                _show(done, len(batch), out or sys.stderr)
        return [futures[place].result() for place in range(len(batch))]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def grouped(batch: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[int]:
    """The places in the order to begin in: those with the same first arguments, whose texts begin alike, together.

    Groups stand in the order of their first members.
    """
    firsts: dict[tuple[tuple[str, str], ...], int] = {}
    keys = []
    for place, arguments in enumerate(batch):
        items = [(name, repr(arguments[name])) for name in names if name in arguments]
        keys.append([firsts.setdefault(tuple(items[: count + 1]), place) for count in range(len(items))])
    return sorted(range(len(batch)), key=keys.__getitem__)


def _show(done: int, total: int, out: TextIO) -> None:
    bar = "#" * (BAR_WIDTH * done // total)
    out.write(f"\r[{bar:<{BAR_WIDTH}}] {done}/{total}" + ("\n" if done == total else ""))
    out.flush()
