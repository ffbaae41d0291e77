import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.request import Request
from services.scheduler.waiting import WaitingQueue
from tests.services.scheduler.hub import submit


@given(st.data(), st.lists(st.integers(-2, 2), max_size=40))
def test_it_is_sorted_by_priority_and_arrival_whatever_is_added_and_removed(data, priorities):
    queue, held = WaitingQueue(), []
    for order, priority in enumerate(priorities):
        request = Request(submit(priority=priority), order, 0.0, 4)
        queue.add(request)
        held.append(request)
        if data.draw(st.booleans()):
            gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
            queue.remove(gone)
    held.sort(key=lambda request: (-request.priority, request.order))
    assert list(queue) == held
    assert len(queue) == len(held)
    assert queue.head(3) == held[:3]


def test_removing_what_is_not_there_is_an_error():
    queue = WaitingQueue()
    queue.add(Request(submit(), 1, 0.0, 4))
    with pytest.raises(KeyError):
        queue.remove(Request(submit(), 1, 0.0, 4))
