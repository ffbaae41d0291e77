from hypothesis import given

from scripts.bench.cache import unbounded
from tests.scripts.bench.cache.traces import longest_held, prefixes, record, records


def naive(trace):
    held = {}
    found = []
    for one in trace:
        known = held.setdefault(one.namespace, set())
        found.append(longest_held(known, one.prompt_ids))
        known |= prefixes(one.token_ids)
    return found


@given(records(max_size=12, longest=7))
def test_it_reuses_what_a_set_of_all_prefixes_would(trace):
    assert unbounded.reused_tokens(trace) == naive(trace)


def test_one_token_of_a_known_prompt_is_computed():
    assert unbounded.reused_tokens([record([1, 2, 3]), record([1, 2, 3]), record([1])]) == [0, 2, 0]


def test_a_turn_finds_the_answer_before_it():
    assert unbounded.reused_tokens([record([1, 2], [3, 4]), record([1, 2, 3, 4, 5])]) == [0, 4]


def test_namespaces_share_nothing():
    assert unbounded.reused_tokens([record([1, 2, 3], namespace="a"), record([1, 2, 3], namespace="b")]) == [0, 0]


def test_ids_are_compared_as_numbers_not_as_bytes():
    assert unbounded.reused_tokens([record([256, 7]), record([1, 7, 7]), record([256, 7, 7])]) == [0, 0, 2]
