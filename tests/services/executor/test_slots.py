from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.slots import SlotAllocator, runs_of
from shared.invariant import BrokenInvariant


def test_a_fresh_pool_gives_one_run() -> None:
    allocator = SlotAllocator(100)
    assert list(runs_of(allocator.allocate(30))) == [(35, 65)]
    assert allocator.free_tokens == 70


def test_what_continues_is_put_right_behind() -> None:
    allocator = SlotAllocator(100)
    first = allocator.allocate(10)
    other = allocator.allocate(10)
    more = allocator.allocate(5, after=int(first[-1]))
    assert list(runs_of(np.concatenate((first, more)))) == [(45, 60)]
    assert not np.intersect1d(more, other).size


def test_many_that_grow_in_turn_stay_contiguous() -> None:
    allocator = SlotAllocator(4096)
    held = [allocator.allocate(8) for _ in range(8)]
    for _ in range(100):
        held = [np.concatenate((slots, allocator.allocate(1, after=int(slots[-1])))) for slots in held]
    assert [len(list(runs_of(slots))) for slots in held] == [1] * 8


def test_what_is_claimed_goes_to_its_claimer_and_to_others_only_when_there_is_nothing_else() -> None:
    allocator = SlotAllocator(40)
    first = allocator.allocate(10, ahead=5)
    assert (allocator.free_tokens, allocator.unclaimed_tokens, allocator.room_behind(int(first[-1]))) == (30, 25, 30)
    others = allocator.allocate(25)
    assert allocator.unclaimed_tokens == 0
    more = allocator.allocate(2, after=int(first[-1]), ahead=9)
    assert list(runs_of(np.concatenate((first, more)))) == [(0, 12)]
    assert (allocator.room_behind(11), allocator.unclaimed_tokens) == (3, 0)
    assert sorted(allocator.allocate(3).tolist()) == [12, 13, 14]
    assert not np.intersect1d(first, others).size
    allocator.check_integrity()


def test_a_claim_that_is_given_up_is_anybodys() -> None:
    allocator = SlotAllocator(10)
    first = allocator.allocate(4, ahead=6)
    allocator.give_up_claim(int(first[-1]))
    allocator.give_up_claim(int(first[-1]))
    assert allocator.unclaimed_tokens == allocator.longest_run == 6


def test_what_fits_best_is_taken_with_room_for_what_will_follow() -> None:
    allocator = SlotAllocator(40)
    allocator.allocate(40)
    for start, end in ((0, 4), (10, 16), (20, 29)):
        allocator.free(np.arange(start, end))
    assert allocator.allocate(4, ahead=5).tolist() == [20, 21, 22, 23]
    assert allocator.allocate(4).tolist() == [0, 1, 2, 3]
    assert allocator.allocate(5, ahead=20).tolist() == [10, 11, 12, 13, 14]


def test_freed_neighbours_become_one_run() -> None:
    allocator = SlotAllocator(12, page_size=2)
    parts = [allocator.allocate(4) for _ in range(3)]
    for part in parts:
        allocator.free(part)
    assert allocator.free_runs() == [(0, 12)]


def test_scattered_slots_are_given_when_there_is_nothing_better() -> None:
    allocator = SlotAllocator(10)
    allocator.allocate(10)
    allocator.free(np.array([1, 3, 4, 8]))
    assert sorted(allocator.allocate(4).tolist()) == [1, 3, 4, 8]


@pytest.mark.parametrize("tokens", [9, 3])
def test_more_than_is_free_or_a_part_of_a_page_is_refused(tokens: int) -> None:
    allocator = SlotAllocator(8, page_size=2)
    with pytest.raises(ValueError, match="cannot take"):
        allocator.allocate(tokens)


@pytest.mark.parametrize(("capacity", "page_size"), [(0, 1), (10, 4)])
def test_capacity_is_whole_pages(capacity: int, page_size: int) -> None:
    with pytest.raises(ValueError, match="not a positive multiple"):
        SlotAllocator(capacity, page_size)


def test_the_check_finds_a_slot_freed_twice() -> None:
    allocator = SlotAllocator(10)
    taken = allocator.allocate(4)
    allocator.free(taken)
    allocator.free(taken[:2])
    with pytest.raises(BrokenInvariant):
        allocator.check_integrity()


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([1, 4]))
def test_every_slot_is_free_or_held_once(data: st.DataObject, page_size: int) -> None:
    allocator = SlotAllocator(16 * page_size, page_size)
    held: list[np.ndarray] = []
    for _ in range(data.draw(st.integers(1, 30))):
        if held and data.draw(st.booleans()):
            part = held.pop(data.draw(st.integers(0, len(held) - 1)))
            cut = data.draw(st.integers(0, len(part) // page_size)) * page_size
            allocator.free(part[cut:])
            held.append(part[:cut])
        else:
            pages = data.draw(st.integers(0, allocator.free_tokens // page_size))
            after = int(held[-1][-1]) if held and len(held[-1]) else None
            ahead = data.draw(st.integers(0, 3)) * page_size
            held.append(allocator.allocate(pages * page_size, after, ahead))
        allocator.check_integrity()
        free = [np.arange(start, end) for start, end in allocator.free_runs()]
        assert np.array_equal(np.sort(np.concatenate([*held, *free])), np.arange(16 * page_size))
