import pytest

from services.gateway.limits import Caller, Keyring, Limits
from shared.config import Config, ConfigError, GatewayConfig
from shared.namespaces import namespace
from tests.support.gateway_terms import LIMITS


def test_without_keys_everyone_may_do_everything():
    keys = Keyring.of(GatewayConfig())
    assert keys.identify(None) == Caller("", is_admin=True)
    assert keys.identify("anything") == Caller("", is_admin=True)
    assert not keys.are_needed


def test_a_key_is_needed_once_there_is_one():
    keys = Keyring.of(GatewayConfig(api_keys=("one", "two")))
    assert keys.are_needed
    assert keys.identify(None) is None
    assert keys.identify("") is None
    assert keys.identify("three") is None
    assert keys.identify("on") is None
    one, two = keys.identify("one"), keys.identify("two")
    assert one.tenant != two.tenant
    assert not one.is_admin
    assert "one" not in one.tenant


def test_the_admin_key_alone_closes_only_the_admin_routes():
    keys = Keyring.of(GatewayConfig(admin_key="root"))
    assert not keys.are_needed
    assert keys.identify(None) == Caller("", is_admin=False)
    assert keys.identify("root").is_admin


def test_the_admin_key_opens_the_other_routes_too():
    keys = Keyring.of(GatewayConfig(api_keys=("one",), admin_key="root"))
    assert keys.identify("root").is_admin
    assert keys.identify(None) is None


def test_keys_from_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# tenants\n\nalpha: one\ntwo\n  beta: sk:three  \n", "utf-8")
    keys = Keyring.of(GatewayConfig(api_keys_file=str(path), api_keys=("four",)))
    assert all(keys.identify(token) is not None for token in ("one", "two", "sk:three", "four"))
    assert keys.identify("alpha: one") is None


@pytest.mark.parametrize("content", [None, "", "# nothing\n", b"\xff\xfe"])
def test_a_file_without_keys_is_an_error(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match="api_keys_file"):
        Keyring.of(GatewayConfig(api_keys_file=str(path)))


@pytest.mark.parametrize("config", [GatewayConfig(api_keys=("",)), GatewayConfig(admin_key="")])
def test_an_empty_key_is_an_error(config):
    with pytest.raises(ConfigError):
        Keyring.of(config)


def test_namespaces_are_a_tenants_own():
    assert namespace("", None, None) == ""
    assert namespace("t", "", None) == "t"
    assert namespace("t", "a", None) != namespace("t", None, "a")
    assert namespace("t", "a", "b") != namespace("t", "ab", None)
    assert namespace("t", "a", None) != namespace("u", "a", None)


def test_limits_come_from_the_configuration_and_the_card(tiny_card):
    assert (
        Limits.of(Config(gateway=GatewayConfig(max_choices=8, max_stop_strings=4, max_logit_bias=10)), tiny_card)
        == LIMITS
    )
