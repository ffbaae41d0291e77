"""A stream of a backend, followed by code that is not async. An interrupt ends it, here and at the server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from queue import SimpleQueue
from typing import TypeAlias

from sapwood.backends.protocol import Backend, GenerateRequest, Generation
from sapwood.loop import BACKGROUND

Pieces: TypeAlias = SimpleQueue[Generation | None]


@contextlib.contextmanager
def following(backend: Backend, request: GenerateRequest) -> Iterator[Iterator[Generation]]:
    """The output so far, again and again; the stream is over at the block's end at the latest."""
    pieces: Pieces = SimpleQueue()
    pump = BACKGROUND.submit(_pump(backend.stream(request), pieces))

    def each() -> Iterator[Generation]:
        while (generation := pieces.get()) is not None:
            yield generation
        pump.result()  # what went wrong

    try:
        yield each()
    finally:
        pump.cancel()


async def _pump(stream: AsyncIterator[Generation], pieces: Pieces) -> None:
    """The one task that the stream is read in, so that it can be ended anywhere."""
    try:
        async for generation in stream:
            pieces.put(generation)
    finally:
        pieces.put(None)
