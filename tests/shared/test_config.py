import msgspec
import pytest
import yaml

from shared import config as configuration
from shared.config import Config, ConfigError, KeyLimits, load


def test_defaults_without_any_source():
    assert load() == Config()


def test_the_shipped_file_states_every_key_with_its_default(repository):
    file = repository / "configs" / "default.yaml"
    stated = yaml.safe_load(file.read_text())
    defaults = msgspec.to_builtins(Config())
    del defaults["run_dir"]
    assert {section: set(keys) for section, keys in stated.items()} == {s: set(keys) for s, keys in defaults.items()}
    assert load(file) == Config()


def test_an_empty_section_is_no_section(tmp_path):
    file = tmp_path / "sapwood.yaml"
    file.write_text("gateway:\n")
    assert load(file, overrides={"gateway.port": 5}).gateway.port == 5


def test_flags_win_over_environment_and_environment_over_the_file(tmp_path):
    file = tmp_path / "sapwood.yaml"
    file.write_text("gateway: {port: 1, host: a}\nscheduler: {policy: fcfs}\n")
    environment = {"SAPWOOD_GATEWAY__PORT": "2", "SAPWOOD_GATEWAY__HOST": "b", "SAPWOOD_RUN_DIR": "/r"}
    environment |= {"HOME": "/", "SAPWOOD_SERVICE_HOST": "10.0.0.1"}
    loaded = load(file, environment=environment, overrides={"gateway.port": 3})
    assert loaded.run_dir == "/r"
    assert (loaded.gateway.port, loaded.gateway.host, loaded.scheduler.policy) == (3, "b", "fcfs")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"gateway.prt": 1}, "unknown key 'gateway.prt'; did you mean 'port'?"),
        ({"gatway.port": 1}, "unknown key 'gatway.port'; did you mean 'gateway'?"),
        ({"gateway.port.deep": 1}, "unknown key 'gateway.port.deep'"),
        ({"gateway.port": "x"}, "Expected `int`, got `str` - at `$.gateway.port`"),
        ({"gateway.port": 70000}, "<= 65535"),
        ({"executor.mem_fraction_static": 1.0}, "< 1"),
        (
            {"scheduler.policy": "best"},
            "Invalid enum value 'best'; one of dfs-weight, fcfs, lof, lpm, priority - at `$",
        ),
        ({"executor.eviction_policy": "fifo"}, "Invalid enum value 'fifo'"),
        ({"executor.cache_quota": 1.5}, "<= 1"),
        ({"executor.replicas": 0}, ">= 1"),
        ({"scheduler.balance_factor": 0.5}, ">= 1"),
        ({"gateway": 1}, "Expected `object`"),
        (
            {"gateway.key_limits.names": {"alice": {"request_per_minute": 1}}},
            "'gateway.key_limits.names.alice.request_per_minute'; did you mean 'requests_per_minute'?",
        ),
        ({"gateway.key_limits.default.tokens_per_minute": 0}, ">= 1"),
    ],
)
def test_what_is_wrong_is_named(overrides, message):
    with pytest.raises(ConfigError, match=message.replace("$", r"\$").replace("?", r"\?")):
        load(overrides=overrides)


def test_a_key_like_no_other_is_compared_with_none():
    with pytest.raises(ConfigError) as caught:
        load(overrides={"gateway.foo": 1})
    assert str(caught.value) == "unknown key 'gateway.foo'"


def test_a_key_has_the_default_limits_where_its_own_are_not_said(tmp_path):
    file = tmp_path / "sapwood.yaml"
    names = "{alice: {requests_per_minute: 9}, bob: {cache_weight: 0}}"
    file.write_text(f"gateway: {{api_keys: [k], key_limits: {{names: {names}}}}}")
    limits = load(file, overrides={"gateway.key_limits.default.requests_per_minute": 5}).gateway.key_limits
    assert limits.of("alice") == KeyLimits(requests_per_minute=9)
    assert limits.of("bob") == KeyLimits(requests_per_minute=5, cache_weight=0)
    assert limits.of("carol") == limits.of(None) == KeyLimits(requests_per_minute=5)


def test_a_file_that_is_no_mapping(tmp_path):
    file = tmp_path / "list.yaml"
    file.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected sections"):
        load(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "nothing.yaml")


def test_what_is_dumped_loads_as_the_same(tmp_path):
    config = load(overrides={"gateway.api_keys": ["k"], "run_dir": "/r", "executor.max_total_tokens": 5})
    file = tmp_path / "config.yaml"
    file.write_bytes(configuration.dump(config))
    assert load(file) == config


def test_endpoints_know_the_run_directory():
    config = load(overrides={"run_dir": "/r", "links.hub_bind": "tcp://0.0.0.0:1"})
    assert config.endpoint("front_bind") == config.endpoint("front") == "ipc:///r/front.sock"
    assert config.endpoint("hub") == "ipc:///r/hub.sock"
    assert config.endpoint("hub_bind") == "tcp://0.0.0.0:1"
