import pytest
from structlog.testing import capture_logs

from shared.complaints import Complaints, printable


@pytest.fixture
def lines():
    with capture_logs() as found:
        yield found


def test_a_thousand_in_a_second_are_two_lines(lines):
    now_s = 0.0
    complaints = Complaints(lambda: now_s)
    for number in range(1000):
        complaints.note(b"peer", f"reason {number}")
    now_s = 1.0
    complaints.tick()
    complaints.tick()
    assert [(line["reason"], line["times"]) for line in lines] == [("reason 0", 1), ("reason 999", 999)]
    assert complaints.count == lines[-1]["in_all"] == 1000


def test_words_of_others_stay_on_their_line():
    assert printable("a\r\nb\x1b[2J\u2028") == "a\\r\\nb\\x1b[2J\\u2028"
    assert printable(b"\x00\xff'\"") == "\\x00\\xff\\'\""
    assert len(printable("x" * 10_000)) == 200
