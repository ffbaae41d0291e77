import pytest
from structlog.testing import capture_logs

from shared.stalls import QUIET_S, Stalls

TICK_S = 0.25


@pytest.fixture
def lines():
    with capture_logs() as found:
        yield found


def told(lines):
    return [(line["event"], line["what"], line["stalled_s"], line["times"]) for line in lines]


def test_a_loop_that_stood_still_says_so_once(lines):
    stalls = Stalls(TICK_S)
    for now_s in (100.0, 100.25, 101.25, 104.5, 104.75):
        stalls.tick(now_s, 0.0)
    assert told(lines) == [("stalled", "loop", 3.0, 1)]
    assert lines[0]["log_level"] == "warning"


def test_many_are_told_together_with_the_longest(lines):
    stalls = Stalls(TICK_S)
    for now_s in (0.0, 2.0, 4.0, 8.0, 8.25, 2.0 + QUIET_S):
        stalls.tick(now_s, 0.0)
    assert told(lines) == [("stalled", "loop", 1.75, 1), ("stalled", "loop", 3.75, 3)]


def test_work_is_told_of_once_it_is_over(lines):
    stalls = Stalls(TICK_S)
    for tick in range(10):
        stalls.tick(tick * TICK_S, tick * TICK_S)
    assert lines == []
    stalls.tick(10 * TICK_S, 0.125)  # the next piece
    stalls.tick(11 * TICK_S, 0.0)
    assert told(lines) == [("stalled", "work", 2.25, 1)]


def test_work_that_stood_still_with_the_loop_is_told_with_it(lines):
    stalls = Stalls(TICK_S)
    for now_s, work_age_s in ((0.0, 0.0), (3.0, 2.875), (3.25, 3.125), (3.5, 0.0)):
        stalls.tick(now_s, work_age_s)
    assert [line["what"] for line in lines] == ["loop"]
