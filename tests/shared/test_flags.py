import argparse
import re

import pytest

from shared import flags
from shared.config import ConfigError, load


def parse(*argv):
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser)
    return flags.overrides(parser.parse_args(argv))


@pytest.fixture
def helptext():
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser)
    return parser.format_help()


def test_a_command_lists_what_matters_to_it_and_takes_all():
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser, flags.OF_A_PLACE)
    assert set(re.findall(r"--[a-z-]+", parser.format_help())) == {*flags.OF_A_PLACE, "--config", "--set", "--help"}
    assert flags.overrides(parser.parse_args(["--threads", "3"])) == {"executor.threads": 3}


def test_what_is_listed_for_a_model_is_a_flag(helptext):
    assert all(f"{flag} " in helptext for flag in flags.OF_A_MODEL)


def test_no_flag_overrides_nothing():
    assert parse() == {}


def test_every_flag_names_a_key_of_the_configuration():
    given = {
        "--model-path": "m", "--served-model-name": "n", "--context-length": "9", "--host": "::1", "--port": "1",
        "--api-keys-file": "f", "--admin-api-key": "a", "--log-level": "debug", "--log-format": "console",
        "--device": "cpu", "--dtype": "bfloat16", "--page-size": "16", "--mem-fraction-static": "0.5",
        "--schedule-policy": "dfs-weight", "--chunked-prefill-size": "64", "--radix-eviction-policy": "lfu",
        "--cache-quota": "0.25", "--executors": "2", "--max-running-requests": "3", "--tokenizers": "2",
        "--detokenizers": "2", "--run-dir": "/r",
    }  # fmt: skip
    switches = ["--disable-adaptive-cache", "--sglang-metrics", "--show-cached-text", "--enable-metrics"]
    switches += ["--disable-jump-forward", "--allow-open", "--public-metrics", "--vllm-metrics"]
    switches += ["--allow-plain-tcp", "--api-key", "k1", "--api-key", "k2"]
    argv = [part for pair in given.items() for part in pair] + switches + ["--set", "tokenizer.credits=3"]
    config = load(overrides=parse(*argv))
    assert config.gateway.api_keys == ("k1", "k2")
    executor = config.executor
    assert (executor.page_size, executor.replicas, executor.eviction_policy) == (16, 2, "lfu")
    assert (executor.cache_quota, executor.adaptive_cache) == (0.25, False)
    assert config.scheduler.policy == "dfs-weight"
    assert not config.constraints.jump_forward
    assert config.gateway.sglang_metrics
    assert config.gateway.vllm_metrics
    assert config.gateway.show_cached_text
    assert config.gateway.allow_open
    assert config.gateway.public_metrics
    assert config.tokenizer.credits == 3
    assert config.model.name == "n"


def test_flags_that_go_with_no_others():
    config = load(overrides=parse("--disable-radix-cache", "--max-total-tokens", "5", "--dp-size", "3"))
    executor = config.executor
    assert (executor.disable_radix_cache, executor.max_total_tokens, executor.replicas) == (True, 5, 3)


@pytest.mark.parametrize("policy", ["lpm", "fcfs", "dfs-weight", "lof", "priority"])
def test_every_policy_can_be_asked_for_and_stands_in_the_help(policy, helptext):
    assert load(overrides=parse("--schedule-policy", policy)).scheduler.policy == policy
    assert policy in helptext


@pytest.mark.parametrize("policy", ["lru", "lfu", "priority"])
def test_every_eviction_policy_can_be_asked_for_and_stands_in_the_help(policy, helptext):
    assert load(overrides=parse("--radix-eviction-policy", policy)).executor.eviction_policy == policy
    assert policy in helptext


def test_metrics_cannot_be_both_on_and_off(capsys):
    with pytest.raises(SystemExit):
        parse("--enable-metrics", "--disable-metrics")
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--tp", "2"], "tensor parallelism is not available"),
        (["--enable-flashinfer"], "--enable-flashinfer"),
        (["--set", "gateway.port"], "expected KEY=VALUE"),
        (["--set", "gateway.port=["], "--set gateway.port="),
    ],
)
def test_what_cannot_be_had_is_refused(argv, message):
    with pytest.raises(ConfigError, match=message):
        parse(*argv)
