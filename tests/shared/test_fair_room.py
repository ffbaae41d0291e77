"""Who may have how much of what is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.fair_room import excess, most


def filled(bound, tenants):
    """What each has once all of them have taken, in turns, what they may."""
    own = [0] * tenants
    while any(added := [not excess(1, own=each, free=bound - sum(own)) for each in own]):
        own[added.index(True)] += 1
        own.sort()
    return own


@pytest.mark.parametrize(
    ("bound", "tenants", "expected"),
    [(8, 1, [7]), (16, 1, [14]), (4096, 1, [3584]), (15, 2, [7, 7]), (4096, 3, [1303, 1303, 1304]), (1, 1, [1])],
)
def test_who_is_alone_has_nearly_all_and_several_have_the_same(bound, tenants, expected):
    assert filled(bound, tenants) == expected


@given(st.integers(1, 200))
def test_the_most_of_one_tenant_is_what_it_fills_alone(bound):
    assert [most(bound)] == filled(bound, 1)


@given(st.integers(2, 200), st.integers(1, 8))
def test_as_long_as_there_is_a_place_another_one_gets_it(bound, tenants):
    free = bound - sum(filled(bound, tenants))
    assert excess(1, own=0, free=free) == (0 if free else 1)
    assert free or tenants * 7 >= bound


@given(st.integers(1, 50), st.integers(0, 50), st.integers(-10, 50))
def test_once_so_many_of_its_own_have_left_it_may(wanted, own, free):
    leave = excess(wanted, own=own, free=free)
    assert excess(wanted, own=own - leave, free=free + leave) == 0
    assert leave == 0 or excess(wanted, own=own - leave + 1, free=free + leave - 1) > 0
