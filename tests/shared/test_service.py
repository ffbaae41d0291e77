import pytest
from structlog.testing import capture_logs

from shared import wire
from shared.config import Config
from shared.service import TICK_S, Lifeline, _Runner


class Over(Exception):
    pass


class Watched:
    """A service whose ticks come at these times."""

    def __init__(self, *ticks_s):
        self.now_s, self._ticks_s = 0.0, iter(ticks_s)

    def tick(self):
        self.now_s = next(self._ticks_s, None)
        if self.now_s is None:
            raise Over

    def progress(self):
        return wire.Progress()


def test_a_stage_that_stood_still_says_so(monkeypatch):
    async def at_once(_seconds):
        pass

    service = Watched(100.0, 100.0 + TICK_S, 103.0 + 2 * TICK_S)
    monkeypatch.setattr("shared.service.asyncio.sleep", at_once)
    monkeypatch.setattr("shared.service.time.monotonic", lambda: service.now_s)
    runner = _Runner(Config(), "gateway", "gateway", lambda context: service, Lifeline(None))
    with capture_logs() as lines, pytest.raises(Over):
        runner._tick(service).send(None)
    assert [(line["event"], line["what"], line["stalled_s"]) for line in lines] == [("stalled", "loop", 3.0)]
