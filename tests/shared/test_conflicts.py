"""Settings that exclude each other are refused at start, wherever they come from."""

import re

import pytest

from shared import config as configuration
from shared.config import ConfigError, load

NO_CACHE = {"executor.disable_radix_cache": True}

CONFLICTS = [
    (NO_CACHE | {"scheduler.policy": "lpm"}, "scheduler.policy (--schedule-policy) lpm", "--disable-radix-cache"),
    (NO_CACHE | {"scheduler.policy": "dfs-weight"}, "(--schedule-policy) dfs-weight", "--disable-radix-cache"),
    (NO_CACHE | {"executor.eviction_policy": "lru"}, "--radix-eviction-policy", "executor.disable_radix_cache"),
    (NO_CACHE | {"executor.cache_quota": 0.2}, "--cache-quota", "executor.disable_radix_cache"),
    (NO_CACHE | {"executor.adaptive_cache": True}, "executor.adaptive_cache", "executor.disable_radix_cache"),
    (
        {"executor.max_total_tokens": 100, "executor.mem_fraction_static": 0.5},
        "executor.max_total_tokens (--max-total-tokens)",
        "executor.mem_fraction_static (--mem-fraction-static)",
    ),
    ({"executor.max_total_tokens": 15, "executor.page_size": 16}, "(--page-size) 16", "(--max-total-tokens) 15"),
    ({"executor.replicas": 2, "executor.device": "cuda:0"}, "executor.replicas (--executors) 2", "--max-total-tokens"),
    ({"gateway.sglang_metrics": True, "gateway.enable_metrics": False}, "--sglang-metrics", "--disable-metrics"),
    ({"gateway.vllm_metrics": True, "gateway.enable_metrics": False}, "--vllm-metrics", "--disable-metrics"),
    ({"gateway.show_cached_text": True, "gateway.api_keys": ["k"]}, "--show-cached-text", "--admin-api-key"),
    ({"gateway.show_cached_text": True, "gateway.api_keys_file": "f"}, "--show-cached-text", "gateway.admin_key"),
    ({"gateway.show_cached_text": True, "gateway.host": "0.0.0.0"}, "--show-cached-text", "gateway.host"),
    ({"links.keys_dir": "keys", "links.allow_plain_tcp": True}, "links.keys_dir", "--allow-plain-tcp"),
    ({"gateway.key_limits.default.requests_per_minute": 1}, "gateway.key_limits", "--api-keys-file"),
    ({"gateway.key_limits.names.a.cache_weight": 1}, "gateway.key_limits", "gateway.api_keys"),
]

ALLOWED = [
    NO_CACHE,
    NO_CACHE | {"scheduler.policy": "fcfs", "executor.adaptive_cache": False},
    NO_CACHE | {"scheduler.policy": "lof"},
    NO_CACHE | {"scheduler.policy": "priority"},
    {"executor.max_total_tokens": 16, "executor.page_size": 16, "scheduler.max_step_tokens": 4},
    {"executor.max_batch": 32},
    {"executor.page_size": 1024},
    {"executor.replicas": 2},
    {"executor.replicas": 2, "executor.device": "cuda", "executor.max_total_tokens": 1000},
    {"executor.replicas": 2, "executor.device": "cuda", "executor.mem_fraction_static": 0.4},
    {"gateway.show_cached_text": True},
    {"gateway.show_cached_text": True, "gateway.api_keys": ["k"], "gateway.admin_key": "a"},
    {"gateway.sglang_metrics": True},
    {"gateway.key_limits.default.requests_per_minute": 1, "gateway.api_keys": ["k"]},
]


@pytest.mark.parametrize(("overrides", "one", "other"), CONFLICTS)
def test_what_excludes_each_other_is_refused_with_both_names(overrides, one, other):
    with pytest.raises(ConfigError) as refusal:
        load(overrides=overrides)
    assert one in str(refusal.value)
    assert other in str(refusal.value)


@pytest.mark.parametrize("overrides", ALLOWED)
def test_what_goes_together_loads_and_what_was_dumped_of_it_too(overrides, tmp_path):
    config = load(overrides=overrides)
    file = tmp_path / "config.yaml"
    file.write_bytes(configuration.dump(config))
    assert load(file) == config


def test_all_of_them_are_told_at_once():
    everything = NO_CACHE | {"scheduler.policy": "lpm", "executor.cache_quota": 0.1, "scheduler.max_step_tokens": 4}
    with pytest.raises(ConfigError, match=r"--schedule-policy.*; .*--cache-quota"):
        load(overrides=everything)


def test_it_does_not_matter_where_they_come_from(tmp_path):
    file = tmp_path / "sapwood.yaml"
    file.write_text("executor: {disable_radix_cache: true}\n")
    with pytest.raises(ConfigError, match=re.escape("scheduler.policy (--schedule-policy) lpm")):
        load(file, environment={"SAPWOOD_SCHEDULER__POLICY": "lpm"})
