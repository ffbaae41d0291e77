"""A clock for the library that counts by minutes, and a storage that runs by it."""

import types

from limits.aio.storage import MemoryStorage

START_S = 1_700_000_040.0  # where a window begins


class RateClock:
    """Stands in for the `time` that the library's memory storage reads."""

    def __init__(self, monkeypatch):
        self.now_s = START_S
        monkeypatch.setattr("limits.aio.storage.memory.time", types.SimpleNamespace(time=lambda: self.now_s))
        self.storage = MemoryStorage(wrap_exceptions=True)
