"""The order in which requests go to the tokenizers."""

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.turns import Turns


def taken(turns):
    found = []
    while turns:
        found.append(turns.take())
    return found


def test_a_tenants_own_go_in_their_order():
    turns = Turns()
    for request_id in ("c", "a", "b"):
        turns.add("", request_id)
    assert taken(turns) == ["c", "a", "b"]


def test_who_asks_for_much_lets_the_others_go_between():
    turns = Turns()
    for number in range(4):
        turns.add("a", f"a{number}")
    assert turns.take() == "a0"
    turns.add("b", "b0"), turns.add("b", "b1"), turns.add("c", "c0")
    assert taken(turns) == ["a1", "b0", "c0", "a2", "b1", "a3"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove", "take"]), st.integers(0, 5))))
def test_nobody_is_lost_or_served_twice(operations):
    turns, waiting = Turns(), set()
    for tenant, operation, number in operations:
        request_id = f"{tenant}{number}"
        if operation == "add":
            turns.add(tenant, request_id), waiting.add(request_id)
        elif operation == "remove":
            turns.remove(tenant, request_id), waiting.discard(request_id)
        elif waiting:
            assert turns.next() in waiting
            waiting.remove(turns.take())
        assert bool(turns) == bool(waiting)
    assert sorted(taken(turns)) == sorted(waiting)
