import pytest

from scripts.bench.traffic.words import WORDS
from scripts.bench.traffic.workload import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_prompts_and_another_one_others(name):
    workload = WORKLOADS[name]
    assert workload.prompts(3) == workload.prompts(3)
    assert workload.prompts(3) != workload.prompts(4)


@pytest.mark.parametrize("name", ["single", "batch"])
def test_prompts_of_the_wanted_length_with_nothing_in_common(name):
    workload = WORKLOADS[name]
    [prompts] = workload.prompts(1).values()
    assert len(prompts) == len({prompt[:60] for prompt in prompts}) == workload.requests
    for prompt in prompts:
        assert len(prompt.split()) == workload.prompt_tokens
        assert set(prompt.split()) <= set(WORDS)


def test_a_prefix_in_three_phases():
    workload = WORKLOADS["prefix"]
    phases = workload.prompts(1)
    assert list(phases) == ["cold", "warm", "warm_new"]
    assert phases["warm"] == phases["cold"]
    assert not set(phases["warm_new"]) & set(phases["cold"])
    every = [prompt.split() for phase in phases.values() for prompt in phase]
    assert {len(prompt) for prompt in every} == {1550}
    assert len({tuple(prompt[:1500]) for prompt in every}) == 1
    assert len({tuple(prompt[1500:]) for prompt in every}) == 32


def test_only_some_phases_leave_the_prompts_as_they_are():
    workload = WORKLOADS["prefix"]
    only = workload.only(("warm_new", "cold")).prompts(2)
    assert list(only) == ["cold", "warm_new"]
    assert only["warm_new"] == workload.prompts(2)["warm_new"]
    assert WORKLOADS["batch"].only(("cold",)) == WORKLOADS["batch"]


def test_other_sizes_where_they_are_given():
    shaped = WORKLOADS["batch"].shaped(requests=3, new_tokens=None)
    assert (shaped.requests, shaped.new_tokens) == (3, WORKLOADS["batch"].new_tokens)
