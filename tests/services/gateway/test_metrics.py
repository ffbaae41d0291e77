"""What is counted, under which names."""

import math
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.gateway.constraint_metrics import COUNTERS, GAUGES, ConstraintFigures
from services.gateway.generation import Usage
from services.gateway.metrics import Metrics
from services.gateway.sglang_metrics import SGLANG
from services.gateway.vllm_metrics import VLLM
from shared import wire
from tests.services.gateway.metric_rules import problems
from tests.support.fake_pipeline import POOL

MODEL = "org/tiny"


def used(metrics=None):
    """Every metric has a value."""
    metrics = metrics or Metrics()
    metrics.answered("/generate", "ok")
    metrics.first_output(0.02)
    metrics.next_output(0.03, 3)
    metrics.output(4)
    metrics.generated(Usage(10, 6, 4), 0.5)
    metrics.scheduler(counters(POOL))
    return metrics


def counters(*pools):
    executors = {f"executor-{number}": pool for number, pool in enumerate(pools, 1)}
    waiting = {name: {"compiling": 2, "oldest_wait_s": 1.5, "page_size": 4} for name in executors}
    return {"scheduler": {"running": 1, "waiting": 5, "executors": waiting}, "executors": executors}


def samples(metrics):
    text = metrics.text(open_requests=2).decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metrics", [Metrics(), used()], ids=["unused", "used"])
def test_our_names_follow_the_rules(metrics):
    assert problems(metrics.text(open_requests=1).decode()) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed; the rules are checked above")
def test_promtool_has_nothing_to_say():
    checked = subprocess.run(["promtool", "check", "metrics"], input=used().text(1), capture_output=True, timeout=30)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# TYPE a gauge\na 1\n", "a: no help text"),
        ("# HELP a x\na 1\n", "a: no type"),
        ("# HELP a x\n# TYPE a counter\na 1\n", "a: _total is for counters, and for all of them"),
        ("# HELP a_total x\n# TYPE a_total gauge\na_total 1\n", "a_total: _total is for counters, and for all of them"),
        ("# HELP a_count x\n# TYPE a_count gauge\na_count 1\n", "a_count: ends like a part of a histogram"),
        ("# HELP a_gauge x\n# TYPE a_gauge gauge\na_gauge 1\n", "a_gauge: its type stands in the name"),
        ("# HELP a:c x\n# TYPE a:c gauge\na:c 1\n", "a:c: a colon is for recording rules"),
        ("# HELP aC x\n# TYPE aC gauge\naC 1\n", "aC: written in camelCase"),
        ("# HELP a_hours x\n# TYPE a_hours gauge\na_hours 1\n", "a_hours: not in base units"),
        ('# HELP a_ms x\n# TYPE a_ms histogram\na_ms_bucket{le="+Inf"} 1\n', "a_ms: an abbreviated unit"),
    ],
)
def test_the_rules_find_what_is_wrong(text, problem):
    assert problems(text) == [problem]


# --- figures ---------------------------------------------------------------------------------------------------------


def test_tokens_of_prompts_and_outputs():
    found = samples(used())
    assert found["sapwood_prompt_tokens_total",] == 10
    assert found["sapwood_cache_hit_total", "radix"] == 6
    assert found["sapwood_cache_miss_total", "radix"] == 4
    assert found["sapwood_cache_hit_rate",] == 0.6
    assert found["sapwood_decode_tokens_total",] == 4


def test_a_piece_of_several_tokens_is_so_many_intervals():
    found = samples(used())
    assert found["sapwood_inter_token_seconds_count",] == 3
    assert math.isclose(found["sapwood_inter_token_seconds_sum",], 0.03)
    assert found["sapwood_inter_token_seconds_bucket", "0.01"] == 3


def test_a_piece_without_tokens_is_no_interval():
    metrics = Metrics()
    metrics.next_output(0.03, 0)
    assert samples(metrics)["sapwood_inter_token_seconds_count",] == 0


def test_what_was_evicted_is_counted_on_through_restarts_and_absences():
    metrics = Metrics()
    evicted = []
    for totals in ([5, 1], [8, 1], [8], [2, 4]):  # the first one starts anew at last; the second one was away
        metrics.scheduler(counters(*(POOL | {"evicted_tokens": total} for total in totals)))
        evicted.append(samples(metrics)["sapwood_cache_evicted_tokens_total",])
    assert evicted == [6, 9, 9, 14]


def test_drafts_are_counted():
    metrics = Metrics()
    for drafted, accepted in ((5, 1), (9, 4)):
        metrics.scheduler(counters(POOL | {"drafted_tokens": drafted, "accepted_tokens": accepted}))
    found = samples(metrics)
    assert (found["sapwood_drafted_tokens_total",], found["sapwood_accepted_draft_tokens_total",]) == (9, 4)


def test_the_constrained_decoding_stage_of_all_executors():
    metrics = Metrics()
    for computed in (5, 9):
        constraints = {"computed_masks": computed, "refused_grammars": 1, "grammars": 2, "state_bytes": 100}
        metrics.scheduler(counters(*([POOL | {"constraints": constraints}] * 2)))
    found = samples(metrics)
    assert found["sapwood_constraint_computed_masks_total",] == 18
    assert found["sapwood_constraint_refused_grammars_total",] == 2
    assert found["sapwood_constraint_inherited_masks_total",] == 0
    assert found["sapwood_compiling_requests",] == 4
    assert (found["sapwood_constraint_grammars",], found["sapwood_constraint_state_bytes",]) == (4, 200)


def test_each_figure_of_the_stage_is_shown():
    figures = set(wire.ConstraintCounters.__struct_fields__)
    assert figures == COUNTERS.keys() | GAUGES.keys() == set(ConstraintFigures.__struct_fields__)


def test_an_executor_may_keep_a_figure_to_itself():
    metrics = Metrics()
    metrics.scheduler(counters({}, POOL))
    assert samples(metrics)["sapwood_kv_free_tokens",] == POOL["free_tokens"]


def test_the_queue_and_the_pool_at_a_glance():
    metrics = Metrics()
    assert samples(metrics)["sapwood_kv_usage_ratio",] == 0
    metrics.scheduler(counters(POOL, POOL))
    found = samples(metrics)
    assert found["sapwood_kv_usage_ratio",] == 0.5
    assert found["sapwood_oldest_waiting_seconds",] == 1.5
    assert found["sapwood_kv_page_tokens",] == 4
    metrics.scheduler({"scheduler": {"running": 0, "waiting": 0, "executors": {}}, "executors": {}})
    assert samples(metrics)["sapwood_oldest_waiting_seconds",] == 0


# --- SGLang's and vLLM's names ----------------------------------------------------------------------------------------


def test_sglangs_names_say_what_ours_say():
    found = samples(used(Metrics([SGLANG], model=MODEL)))
    assert {name: value for name, value in found.items() if name[0].startswith("sglang") and len(name) == 2} == {
        ("sglang:cache_hit_rate", MODEL): 0.6,
        ("sglang:token_usage", MODEL): 0.5,
        ("sglang:num_running_reqs", MODEL): 1,
        ("sglang:num_queue_reqs", MODEL): 5,
        ("sglang:num_used_tokens", MODEL): 30,
        ("sglang:max_total_num_tokens", MODEL): 60,
        ("sglang:prompt_tokens_total", MODEL): 10,
        ("sglang:generation_tokens_total", MODEL): 4,
        ("sglang:num_requests_total", MODEL): 1,
        ("sglang:time_to_first_token_seconds_count", MODEL): 1,
        ("sglang:time_to_first_token_seconds_sum", MODEL): 0.02,
        ("sglang:inter_token_latency_seconds_count", MODEL): 3,
        ("sglang:inter_token_latency_seconds_sum", MODEL): found["sapwood_inter_token_seconds_sum",],
        ("sglang:e2e_request_latency_seconds_count", MODEL): 1,
        ("sglang:e2e_request_latency_seconds_sum", MODEL): 0.5,
    }
    for ours, theirs in (
        ("sapwood_time_to_first_token_seconds_bucket", "sglang:time_to_first_token_seconds_bucket"),
        ("sapwood_request_seconds_bucket", "sglang:e2e_request_latency_seconds_bucket"),
    ):
        buckets = {bound: value for (name, bound), value in _pairs(found) if name == ours}
        assert buckets
        assert {name[1]: value for name, value in found.items() if name[0] == theirs} == buckets


def test_what_the_kubernetes_inference_gateway_reads():
    """Its model server protocol: queued and running requests, use of the KV cache, its pages, and LoRA adapters."""
    found = samples(used(Metrics([SGLANG, VLLM], model=MODEL)))
    for running, queued, usage in (
        ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
        ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    ):
        assert [found[name, MODEL] for name in (running, queued, usage)] == [1, 5, 0.5]
    pages = "".join(used(Metrics([SGLANG, VLLM], model=MODEL)).text(0).decode().split())
    assert f'sglang:cache_config_info{{model_name="{MODEL}",num_pages="15",page_size="4"}}1.0' in pages
    assert f'vllm:cache_config_info{{block_size="4",model_name="{MODEL}",num_gpu_blocks="15"}}1.0' in pages
    lora = 'max_lora="0",model_name="org/tiny",running_lora_adapters="",waiting_lora_adapters=""'
    assert f"vllm:lora_requests_info{{{lora}}}1.0" in pages


def test_nothing_is_in_use_where_nothing_is_known():
    assert samples(Metrics([SGLANG], model=MODEL))["sglang:token_usage", MODEL] == 0


def test_our_own_names_stay_as_they_are_beside_them():
    text = used(Metrics([SGLANG], model=MODEL)).text(2).decode()
    assert {problem.partition(":")[0] for problem in problems(text)} == {"sglang"}


def _pairs(found):
    return [(name, value) for name, value in found.items() if len(name) == 2]
