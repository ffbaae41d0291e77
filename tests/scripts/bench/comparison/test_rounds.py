from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scripts.bench.comparison.rounds import turns


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6))
def test_all_sides_do_the_same_work_and_no_seed_comes_again(sides, workloads, rounds):
    names, loads = [f"s{n}" for n in range(sides)], [f"w{n}" for n in range(workloads)]
    played = list(turns(names, loads, rounds, 100))
    assert len(played) == sides * workloads * rounds
    work = {name: [(turn.workload, turn.seed) for turn in played if turn.side == name] for name in names}
    assert all(each == work["s0"] for each in work.values())
    assert max(Counter(work["s0"]).values()) == 1


def test_the_order_changes_from_round_to_round():
    played = [turn.side for turn in turns(["a", "b", "c"], ["w"], 3, 0)]
    assert played == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
