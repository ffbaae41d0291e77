import argparse

import pytest

from shared import flags
from shared.config import ConfigError, load


def parse(*argv):
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser)
    return flags.overrides(parser.parse_args(argv))


def test_no_flag_overrides_nothing():
    assert parse() == {}


def test_every_flag_names_a_key_of_the_configuration():
    given = {
        "--model-path": "m", "--served-model-name": "n", "--context-length": "9", "--host": "::1", "--port": "1",
        "--api-keys-file": "f", "--admin-api-key": "a", "--log-level": "debug", "--log-format": "console",
        "--device": "cuda", "--dtype": "bfloat16", "--page-size": "16", "--mem-fraction-static": "0.5",
        "--max-total-tokens": "5", "--schedule-policy": "fcfs", "--chunked-prefill-size": "64",
        "--max-running-requests": "3", "--tokenizers": "2", "--detokenizers": "2", "--run-dir": "/r",
    }  # fmt: skip
    switches = ["--disable-radix-cache", "--enable-metrics", "--allow-plain-tcp", "--api-key", "k1", "--api-key", "k2"]
    argv = [part for pair in given.items() for part in pair] + switches + ["--set", "tokenizer.credits=3"]
    config = load(overrides=parse(*argv))
    assert config.gateway.api_keys == ("k1", "k2")
    assert config.executor.disable_radix_cache
    assert config.executor.page_size == 16
    assert config.tokenizer.credits == 3
    assert config.model.name == "n"


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
