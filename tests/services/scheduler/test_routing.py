import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.routing import BLOCK_TOKENS, Balance, Option, PrefixSketch, choose

BALANCE = Balance(requests=4, factor=1.5, tokens=10)
options = st.lists(
    st.builds(Option, key=st.integers(), load=st.integers(0, 20), known_tokens=st.integers(0, 40)),
    min_size=1,
    max_size=6,
    unique_by=lambda option: option.key,
)


def tokens(*blocks):
    """Each block has a number of its own, all through."""
    return np.repeat(np.array(blocks, np.int32), BLOCK_TOKENS)


# --- the sketch ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2), max_size=5), st.booleans()), max_size=12))
def test_it_knows_the_longest_prefix_of_the_requests_that_are_there(drawn):
    sketch, there = PrefixSketch(), {}
    for key, (name, blocks, leaves) in enumerate(drawn):
        prefixes = {(each, *of[: n + 1]) for each, of in there.values() for n in range(len(of))}
        expected = sum((name, *blocks[: n + 1]) in prefixes for n in range(len(blocks)))
        assert sketch.match(name, tokens(*blocks)) == expected * BLOCK_TOKENS
        sketch.note(key, name, tokens(*blocks))
        there[key] = (name, blocks)
        if leaves:
            gone = min(there)
            sketch.forget(gone)
            del there[gone]
        assert sketch.requests == len(there)
    for key in there:
        sketch.forget(key)
    assert len(sketch) == 0


def test_only_whole_blocks_count():
    sketch = PrefixSketch()
    sketch.note("r", "a", tokens(1, 2)[:-1])
    assert sketch.match("a", tokens(1, 2)) == BLOCK_TOKENS
    assert sketch.match("a", tokens(1)[:-1]) == 0
    assert sketch.match("a", tokens(1, 1)[1:]) == BLOCK_TOKENS


# --- choosing ------------------------------------------------------------------------------------------------------


def test_the_longest_prefix_wins_then_the_load_then_the_first():
    assert choose([Option("a", 0), Option("b", 3, 64)], BALANCE) == "b"
    assert choose([Option("a", 2, 64), Option("b", 1, 64), Option("c", 1, 64)], BALANCE) == "b"


def test_a_short_prefix_weighs_less_than_a_load():
    assert choose([Option("a", 0), Option("b", 2, 19)], BALANCE) == "a"
    assert choose([Option("a", 0), Option("b", 2, 20)], BALANCE) == "a"
    assert choose([Option("a", 0), Option("b", 2, 21)], BALANCE) == "b"


def test_an_overloaded_one_is_passed_over_but_both_thresholds_must_be_passed():
    assert choose([Option("a", 0), Option("b", 4, 64)], BALANCE) == "b"
    assert choose([Option("a", 0), Option("b", 5, 64)], BALANCE) == "a"
    assert choose([Option("a", 10), Option("b", 15, 64)], BALANCE) == "b"
    assert choose([Option("a", 10), Option("b", 16, 640)], BALANCE) == "a"
    assert choose([Option("a", 0), Option("b", 9, 640), Option("c", 2, 32)], BALANCE) == "c"


@given(options)
def test_the_choice_is_the_best_of_those_in_balance(given_options):
    least = min(option.load for option in given_options)
    balanced = [option for option in given_options if option.load <= max(least + 4, 1.5 * least)]
    worth = {option.key: option.known_tokens - 10 * option.load for option in balanced}
    chosen = choose(given_options, BALANCE)
    assert worth[chosen] == max(worth.values())
    equals = [option for option in balanced if worth[option.key] == worth[chosen]]
    assert chosen == min(equals, key=lambda option: option.load).key


def test_without_options_there_is_no_choice():
    with pytest.raises(ValueError, match="empty"):
        choose([], BALANCE)
