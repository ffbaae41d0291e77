"""What is remembered of requests that are over, and for how long."""

from services.scheduler import ledger
from services.scheduler.ledger import REMEMBER_S, Ledger
from services.scheduler.request import Request
from tests.services.scheduler.hub import submit

KEY = ("gateway", "r1")


def test_the_highest_attempt_is_remembered_whatever_is_buried_later():
    book = Ledger()
    book.bury(KEY, 3, 0.0)
    book.bury(KEY, 1, 1.0)
    assert [book.is_stale(KEY, attempt) for attempt in (1, 3, 4)] == [True, True, False]


def test_an_open_attempt_makes_itself_and_those_before_it_stale():
    book = Ledger()
    book.add(Request(submit(attempt=2), 1, 0.0, 4))
    assert [book.is_stale(KEY, attempt) for attempt in (1, 2, 3)] == [True, True, False]


def test_a_place_outlives_whatever_is_buried_later():
    book = Ledger()
    request = Request(submit(), 7, 3.0, 4)
    book.add(request)
    book.end(request, 5.0, delivered=False)
    book.bury(KEY, 2, 6.0)
    assert book.place(KEY) == (7, 3.0)
    assert book.place(("gateway", "r2")) is None


def test_what_ended_long_ago_is_forgotten_and_what_ended_again_is_not():
    book = Ledger()
    for request_id in ("r1", "r2"):
        book.bury(("gateway", request_id), 1, 0.0)
    book.bury(KEY, 1, REMEMBER_S)
    book.forget(REMEMBER_S + 1)
    assert book.remembered == 1
    assert book.is_stale(KEY, 1)


def test_memory_is_bounded_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(ledger, "REMEMBER_REQUESTS", 10)
    book = Ledger()
    for number in range(25):
        book.bury(("gateway", f"r{number}"), 1, float(number))
    assert book.remembered == 10
    assert book.is_stale(("gateway", "r24"), 1)
    assert not book.is_stale(("gateway", "r0"), 1)
