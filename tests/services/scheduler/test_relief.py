"""Who gives way when room is short."""

from services.scheduler.lane import Lane
from services.scheduler.relief import gives_way
from services.scheduler.request import Request
from tests.services.scheduler.hub import submit


def lane(order, priority=0, tenant="a", holds=10):
    request = Request(submit(f"r{order}", priority=priority, namespace=tenant), order, 0.0, 4)
    made = Lane(order, "executor", request, 1, 1, 0)
    made.settled, made.computed_tokens = True, holds
    return made


def test_one_alone_gives_way_to_nobody():
    assert gives_way([]) is None
    assert gives_way([lane(1)]) is None


def test_the_newest_of_the_lowest_priority_gives_way():
    lanes = [lane(1), lane(2, priority=1), lane(3), lane(4, priority=1)]
    assert gives_way(lanes) is lanes[2]


def test_the_heaviest_tenant_gives_way_whatever_priorities_it_claims():
    mine = [lane(1, tenant="b"), lane(2, tenant="b")]
    flood = [lane(order, priority=100, tenant="a") for order in range(3, 9)]
    assert gives_way([*mine, *flood]) is flood[-1]


def test_the_oldest_of_the_most_senior_never_gives_way():
    old = lane(1, tenant="b", holds=1000)
    new = lane(2, priority=100, tenant="a", holds=1)
    assert gives_way([old, new]) is new
