"""Each workload has the shape that its name promises."""

from itertools import pairwise

import pytest

from scripts.bench.cache import unbounded
from scripts.bench.cache.author import Desk
from scripts.bench.cache.catalogue import WORKLOADS
from scripts.bench.cache.dependent import agents, multi_turn, tree_of_thought
from scripts.bench.cache.independent import few_shot, long_document, no_sharing, shared_prefixes
from scripts.bench.cache.program import rehearse


def words(text):
    """A tokenizer of whole words."""
    return [int.from_bytes(word.encode()[:4], "big") for word in text.split()]


@pytest.fixture
def desk():
    return Desk(words, 1)


def hit_rate(trace):
    return sum(unbounded.reused_tokens(trace)) / sum(len(record.prompt_ids) for record in trace)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "no_sharing"])
def test_most_of_it_can_be_reused(desk, name):
    assert hit_rate(rehearse(WORKLOADS[name](desk, 0.5))) > 0.6


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_is_the_same_every_time_and_grows_with_the_scale(name):
    traces = [rehearse(WORKLOADS[name](Desk(words, 1), scale)) for scale in (1.0, 1.0, 2.0)]
    assert traces[0] == traces[1]
    assert len(traces[2]) == 2 * len(traces[0])


@pytest.mark.parametrize("name", WORKLOADS)
def test_another_seed_writes_another_text(name):
    prompts = [[record.prompt_ids for record in rehearse(WORKLOADS[name](Desk(words, seed), 0.5))] for seed in (1, 2)]
    assert not set(prompts[0]) & set(prompts[1])


def test_each_turn_goes_on_from_the_one_before(desk):
    trace = rehearse(multi_turn(desk, 1.0, users=2, turns=12))
    assert len(trace) == 24
    for user in (trace[:12], trace[12:]):
        for before, after in pairwise(user):
            assert after.prompt_ids[: len(before.token_ids)] == before.token_ids
    assert trace[0].prompt_ids[:300] == trace[12].prompt_ids[:300]
    assert trace[0].prompt_ids != trace[12].prompt_ids


def test_every_thought_is_forked(desk):
    trace = rehearse(tree_of_thought(desk, 1.0, problems=1, branches=3, levels=3))
    assert len(trace) == 3 + 9 + 27
    for number, child in enumerate(trace[3:]):
        parent = trace[number // 3]
        assert child.prompt_ids[: len(parent.token_ids)] == parent.token_ids


def test_agents_share_their_tools(desk):
    trace = rehearse(agents(desk, 1.0, parallel=4, rounds=5, tools=700))
    assert len(trace) == 20
    assert len({record.prompt_ids[:700] for record in trace}) == 1


def test_the_questions_of_a_set_share_its_examples(desk):
    trace = rehearse(few_shot(desk, 1.0, sets=3, examples=5, questions=10))
    assert len(trace) == 30
    assert len({record.prompt_ids[:100] for record in trace}) == 3
    assert len({record.prompt_ids for record in trace}) == 30


def test_the_questions_about_a_document_share_it(desk):
    trace = rehearse(long_document(desk, 1.0, documents=2, document=500, questions=6))
    assert len(trace) == 12
    assert len({record.prompt_ids[:501] for record in trace}) == 2


def test_the_prompts_of_a_group_share_its_prefix(desk):
    trace = rehearse(shared_prefixes(desk, 1.0, groups=4, prompts=5, prefix=100, tail=10))
    assert len(trace) == 20
    assert len({record.prompt_ids[:100] for record in trace}) == 4
    assert {len(record.prompt_ids) for record in trace} == {110}


def test_the_control_shares_nothing(desk):
    trace = rehearse(no_sharing(desk, 1.0, prompts=30, tokens=50))
    assert unbounded.reused_tokens(trace) == [0] * 30
    assert {len(record.prompt_ids) for record in trace} == {50}
