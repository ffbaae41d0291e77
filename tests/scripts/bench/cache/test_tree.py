from hypothesis import given

from scripts.bench.cache.tree import NEVER, Tree
from tests.scripts.bench.cache.traces import prefixes, record, records


@given(records(max_size=10, longest=7))
def test_the_working_set_is_the_number_of_different_prefixes(trace):
    different = {(one.namespace, prefix) for one in trace for prefix in prefixes(one.token_ids)}
    assert Tree(trace).tokens == len(different)


@given(records(max_size=10, longest=7))
def test_a_path_spells_what_its_request_holds(trace):
    for one, path in zip(trace, Tree(trace).paths, strict=True):
        assert [int(token) for segment in path for token in segment.tokens] == list(one.token_ids)
        assert [segment.depth for segment in path] == [
            sum(len(before.tokens) for before in path[:place]) for place in range(len(path))
        ]


@given(records(max_size=10, longest=7))
def test_all_tokens_of_a_segment_are_used_by_the_requests_that_it_names(trace):
    tree = Tree(trace)
    for path in tree.paths:
        spelled = []
        for segment in path:
            for token in segment.tokens:
                spelled.append(int(token))
                users = [n for n, other in enumerate(trace) if is_use(other, spelled) and segment in tree.paths[n]]
                assert segment.uses == users


def is_use(other, spelled):
    return list(other.prompt_ids[:-1][: len(spelled)]) == spelled


def test_the_next_use_is_after_now():
    [[shared, *_], _, _] = Tree([record([1, 2]), record([3, 4]), record([1, 5])]).paths
    assert [shared.next_use(now) for now in (-1, 0, 1, 2)] == [0, 2, 2, NEVER]
