import numpy as np
import pytest

from services.executor.kernels.team import Team, meet, take
from services.executor.kernels.vector import compiled, fetch_add, get_long, put_long

ITEMS = 1000


@compiled
def count(member: int, threads: int, sync: int, counts: int, phases: int) -> None:
    """In each phase, each item is taken, and what its neighbour had after the last one is added."""
    for phase in range(phases):
        now, before = counts + phase * ITEMS * 8, counts + (phase - 1) * ITEMS * 8
        item = take(sync)
        while item < ITEMS:
            fetch_add(now + item * 8, 1 + (get_long(before + (item + 1) % ITEMS * 8) if phase > 0 else 0))
            item = take(sync)
        meet(sync, threads)


@compiled
def sign_in(member: int, threads: int, sync: int, members: int) -> None:
    put_long(members + member * 8, member + 1)
    meet(sync, threads)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_item_is_taken_once_and_phases_do_not_overlap(threads):
    team, phases = Team(threads), 50
    counts = np.zeros((phases, ITEMS), np.int64)
    team.run(count, counts.ctypes.data, phases)
    team.close()
    np.testing.assert_array_equal(counts, np.arange(1, phases + 1)[:, None].repeat(ITEMS, 1))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_members_run_each_time(threads):
    team = Team(threads)
    for _ in range(20):
        members = np.zeros(threads, np.int64)
        team.run(sign_in, members.ctypes.data)
        np.testing.assert_array_equal(members, np.arange(1, threads + 1))
    team.close()
