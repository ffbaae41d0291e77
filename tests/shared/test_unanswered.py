"""What does not answer is told of once, and again when it does."""

import pytest
from structlog.testing import capture_logs

from shared.unanswered import Unanswered


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines():
    with capture_logs() as found:
        yield found


@pytest.fixture
def unanswered(clock, lines):
    return Unanswered(clock, 5.0)


def test_once_until_there_is_an_answer(unanswered, clock, lines):
    for clock.now_s in (0.0, 4.9, 5.0, 6.0, 60.0):
        unanswered.waits("tcp://there", "nobody")
    (line,) = lines
    assert (line["event"], line["address"], line["reason"]) == ("link_unanswered", "tcp://there", "nobody")
    assert (line["waited_s"], line["log_level"]) == (5.0, "warning")
    unanswered.answers("tcp://there")
    unanswered.answers("tcp://there")
    assert [line["event"] for line in lines] == ["link_unanswered", "link_answered"]
    unanswered.waits("tcp://there", "nobody")
    clock.now_s = 65.0
    unanswered.waits("tcp://there", "nobody")
    assert lines[-1]["event"] == "link_unanswered"


def test_an_answer_in_time_is_no_news(unanswered, clock, lines):
    unanswered.waits("tcp://there", "nobody")
    clock.now_s = 4.0
    unanswered.answers("tcp://there")
    clock.now_s = 8.0
    unanswered.waits("tcp://there", "nobody")
    assert lines == []


def test_each_address_has_its_own_time(unanswered, clock, lines):
    unanswered.waits("tcp://one", "nobody")
    clock.now_s = 5.0
    unanswered.waits("tcp://other", "nobody")
    unanswered.waits("tcp://one", "nobody")
    assert [line["address"] for line in lines] == ["tcp://one"]
