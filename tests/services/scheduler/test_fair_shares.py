import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.fair_shares import FairShares

quanta = st.integers(1, 50)


@given(st.data(), quanta, st.integers(1, 300), st.integers(2, 4))
def test_tenants_that_always_have_work_get_equal_parts_whatever_they_ask_for(data, quantum, most_tokens, count):
    tenants = [f"tenant {n}" for n in range(count)]
    shares, served = FairShares(quantum), dict.fromkeys(tenants, 0)
    for _ in range(data.draw(st.integers(1, 60))):
        chosen = data.draw(st.sampled_from(sorted(shares.eligible(tenants))))
        tokens = data.draw(st.integers(1, most_tokens))
        shares.charge(chosen, tokens)
        served[chosen] += tokens
        shares.check_integrity()
        assert max(served.values()) - min(served.values()) < quantum + most_tokens


@given(quanta, st.lists(st.integers(0, 500), max_size=20), st.booleans())
def test_one_that_is_alone_is_never_held_back(quantum, charges, is_entered):
    shares = FairShares(quantum)
    if is_entered:
        shares.enter("a")
    for tokens in charges:
        assert shares.eligible(["a"]) == {"a"}
        shares.charge("a", tokens)


@given(st.data(), quanta)
def test_somebody_may_always_start_and_nobody_saves_more_than_a_quantum(data, quantum):
    tenants = ["a", "b", "c", "d"]
    shares = FairShares(quantum)
    for _ in range(data.draw(st.integers(0, 30))):
        shares.charge(data.draw(st.sampled_from(tenants)), data.draw(st.integers(0, 4 * quantum)))
        waiting = data.draw(st.lists(st.sampled_from(tenants), unique=True))
        eligible = shares.eligible(waiting)
        assert eligible <= set(waiting)
        assert bool(eligible) == bool(waiting)
        assert all(shares.balance(tenant) <= quantum for tenant in tenants)
        shares.check_integrity()


def test_a_quantum_can_be_spent_in_a_row_and_then_it_is_the_others_turn():
    shares = FairShares(100)
    shares.charge("a", 60)
    assert shares.eligible(["a", "b"]) == {"a", "b"}
    shares.charge("a", 60)
    assert shares.eligible(["a", "b"]) == {"b"}
    shares.charge("b", 100)
    assert shares.eligible(["a", "b"]) == {"a", "b"}
    assert (shares.balance("a"), shares.balance("b")) == (80, 100)


def test_a_long_request_is_waited_for_as_long_as_it_takes():
    shares = FairShares(100)
    shares.charge("a", 1050)
    turns = 0
    while "a" not in shares.eligible(["a", "b"]):
        shares.charge("b", 100)
        turns += 1
    assert turns == 10


def test_who_was_away_has_saved_up_no_more_than_a_quantum():
    shares = FairShares(100)
    shares.charge("idle", 50)
    for _ in range(10):
        assert shares.eligible(["busy"]) == {"busy"}
        shares.charge("busy", 100)
    assert shares.balance("idle") == 100


def test_who_was_alone_owes_nothing_to_those_that_come():
    shares = FairShares(100)
    shares.enter("a")
    shares.charge("a", 5000)
    shares.enter("b")
    assert shares.balance("a") == 0
    shares.charge("a", 30)
    assert shares.balance("a") == -30
    shares.leave("b")
    shares.charge("a", 30)
    assert shares.balance("a") == -30  # what it took while the other was there, it still owes


def test_who_has_a_whole_quantum_is_forgotten():
    shares = FairShares(10)
    for n in range(1000):
        shares.charge(f"tenant {n}", 5)
    assert shares.remembered == 1000
    shares.charge("a", 10)
    shares.eligible(["a"])
    assert shares.remembered == 0
    shares.enter("a")
    assert shares.remembered == 1
    shares.leave("a")
    assert shares.remembered == 0


def test_what_makes_no_sense_is_an_error():
    shares = FairShares(10)
    with pytest.raises(KeyError):
        shares.leave("a")
    with pytest.raises(ValueError, match="-1 tokens"):
        shares.charge("a", -1)
    with pytest.raises(ValueError, match="quantum"):
        FairShares(0)
