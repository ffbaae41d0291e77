import sys
from dataclasses import dataclass

import numpy as np
import pytest

from scripts.bench.measure.footprint import held_bytes


@dataclass(slots=True)
class Pair:
    one: object
    other: object


def test_what_is_held_twice_is_counted_once():
    text = "x" * 1000
    pair = Pair(text, [text])
    assert held_bytes(pair) == sys.getsizeof(pair) + sys.getsizeof(text) + sys.getsizeof([text])


def test_rings_end():
    pair = Pair(None, None)
    pair.one = pair
    assert held_bytes(pair) == sys.getsizeof(pair) + sys.getsizeof(None)


def test_a_view_holds_all_of_its_array():
    room = np.zeros(10_000, np.int64)
    assert held_bytes(room[:3]) == pytest.approx(room.nbytes, abs=500)


def test_code_is_nobodys():
    assert held_bytes(Pair(sys, held_bytes)) == sys.getsizeof(Pair(None, None))
