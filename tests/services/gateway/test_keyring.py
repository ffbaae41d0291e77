"""Keys, the callers behind them, and what each may have."""

import hashlib

import pytest

from services.gateway.keyring import Caller, Keyring
from shared.api_keys import Key
from shared.config import ConfigError, GatewayConfig, KeyLimits, KeyLimitsConfig
from shared.namespaces import weight_of


def hashed(key):
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def test_without_keys_everyone_may_do_everything():
    keys = Keyring(GatewayConfig())
    assert keys.identify(None) == Caller("", is_admin=True)
    assert keys.identify("anything") == Caller("", is_admin=True)
    assert not keys.are_needed


def test_a_key_is_needed_once_there_is_one():
    keys = Keyring(GatewayConfig(api_keys=("one", "two")))
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
    keys = Keyring(GatewayConfig(admin_key="root"))
    assert not keys.are_needed
    assert keys.identify(None) == Caller("", is_admin=False)
    assert keys.identify("root").is_admin


@pytest.mark.parametrize("admin_key", ["root", hashed("root")])
def test_the_admin_key_opens_the_other_routes_too(admin_key):
    keys = Keyring(GatewayConfig(api_keys=("one",), admin_key=admin_key))
    assert keys.identify("root").is_admin
    assert keys.identify(None) is None


def test_keys_from_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# tenants\n\nalpha: one\ntwo\n  beta: sk:three  \ngamma: {hashed('four')}\n", "utf-8")
    keys = Keyring(GatewayConfig(api_keys_file=str(path), api_keys=("delta: five",)))
    assert all(keys.identify(token) is not None for token in ("one", "two", "sk:three", "four", "five"))
    assert keys.identify("alpha: one") is None
    assert keys.identify(hashed("four")) is None


def test_the_admin_key_from_a_file(tmp_path):
    path = tmp_path / "admin"
    path.write_text(f"{hashed('root')}\n", "utf-8")
    keys = Keyring(GatewayConfig(admin_key_file=str(path)))
    assert keys.identify("root").is_admin
    assert not keys.identify(None).is_admin


def test_an_old_and_a_new_key_are_one_tenants(tmp_path):
    limits = KeyLimits(requests_per_minute=5)
    config = GatewayConfig(
        api_keys=("alice: old", "alice: new", "bob: third"), key_limits=KeyLimitsConfig(names={"alice": limits})
    )
    keys = Keyring(config)
    assert keys.identify("old") == keys.identify("new") != keys.identify("third")
    assert keys.identify("new").limits == limits


def test_a_file_is_read_anew(tmp_path):
    path = tmp_path / "keys"
    path.write_text("alice: old\nbob: two\n", "utf-8")
    keys = Keyring(GatewayConfig(api_keys_file=str(path)))
    alice = keys.identify("old")
    path.write_text("alice: new\n", "utf-8")
    assert keys.identify("new") is None
    keys.read()
    assert (keys.identify("old"), keys.identify("two"), keys.identify("new")) == (None, None, alice)
    assert set(keys.tenants) == {"alice"}


@pytest.mark.parametrize("content", [None, "", "alice: sha256:short\n", "alice: one\nbob: one\n", "what is this\n"])
def test_a_file_that_cannot_be_used_leaves_the_keys_as_they_were(tmp_path, content):
    path = tmp_path / "keys"
    path.write_text("alice: old\n", "utf-8")
    keys = Keyring(GatewayConfig(api_keys_file=str(path)))
    alice, tenants = keys.identify("old"), keys.tenants
    path.unlink() if content is None else path.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match="api_keys"):
        keys.read()
    assert keys.identify("old") == alice is not None
    assert (keys.tenants, keys.are_needed, keys.identify(None)) == (tenants, True, None)


def test_the_admin_key_is_read_anew(tmp_path):
    path = tmp_path / "admin"
    path.write_text("old\n", "utf-8")
    keys = Keyring(GatewayConfig(admin_key_file=str(path)))
    path.write_text("new\n", "utf-8")
    keys.read()
    assert not keys.identify("old").is_admin
    assert keys.identify("new").is_admin


def test_the_operator_is_no_tenant_of_the_same_name():
    keys = Keyring(GatewayConfig(api_keys=("admin: one",), admin_key="admin: root"))
    assert keys.identify("one").tenant != keys.identify("root").tenant


def test_a_digest_stands_for_the_same_tenant_as_its_key():
    plain, digest = (Keyring(GatewayConfig(api_keys=(key,))) for key in ("one", hashed("one")))
    assert plain.identify("one") == digest.identify("one")


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_key_has_the_limits_of_its_name():
    default, own = KeyLimits(requests_per_minute=5), KeyLimits(tokens_per_minute=9, cache_weight=4)
    config = GatewayConfig(
        api_keys=("alice: one", "bob: two", "three"),
        admin_key="root",
        key_limits=KeyLimitsConfig(default=default, names={"alice": own}),
    )
    keys = Keyring(config)
    assert keys.identify("one").limits == KeyLimits(requests_per_minute=5, tokens_per_minute=9, cache_weight=4)
    assert keys.identify("two").limits == keys.identify("three").limits == default
    assert keys.identify("root").limits == KeyLimits()


def test_a_tenants_name_says_what_it_counts_for_in_the_cache():
    names = {"alice": KeyLimits(cache_weight=4), "bob": KeyLimits(cache_weight=0)}
    config = GatewayConfig(api_keys=("alice: one", "bob: two", "three"), key_limits=KeyLimitsConfig(names=names))
    keys = Keyring(config)
    assert [weight_of(keys.identify(key).tenant) for key in ("one", "two", "three")] == [4, 0, 1]
    assert keys.identify("one").tenant.startswith(Key.read("alice: one").tenant)


def test_limits_of_nobody_are_told():
    names = {"alcie": KeyLimits(requests_per_minute=1), "bob": KeyLimits(requests_per_minute=1)}
    keys = Keyring(GatewayConfig(api_keys=("alice: one", "bob: two"), key_limits=KeyLimitsConfig(names=names)))
    assert keys.limits_of_nobody == ["alcie"]


def test_names_and_their_tenants_are_told():
    keys = Keyring(GatewayConfig(api_keys=("alice: one", "two")))
    assert keys.tenants == {"alice": keys.identify("one").tenant}
