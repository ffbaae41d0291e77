"""Which keys of a configuration can be used, and what is said of the others."""

import hashlib

import pytest

from shared.api_keys import read_keys
from shared.config import ConfigError, GatewayConfig


def hashed(key):
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def test_the_admin_key_is_apart(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# tenants\n\nalice: one\n", "utf-8")
    keys, admin = read_keys(GatewayConfig(api_keys=("two",), api_keys_file=str(path), admin_key="root"))
    assert [key.name for key in keys] == [None, "alice"]
    assert admin not in keys


@pytest.mark.parametrize(
    ("content", "settings"), [("", {}), ("root\nother\n", {}), ("root", {"admin_key": "other"}), (None, {})]
)
def test_no_admin_key_and_two_are_refused(tmp_path, content, settings):
    path = tmp_path / "admin"
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match="admin_key_file"):
        read_keys(GatewayConfig(admin_key_file=str(path), **settings))


@pytest.mark.parametrize("content", [None, "", "# nothing\n", b"\xff\xfe"])
def test_a_file_without_keys_is_an_error(tmp_path, content):
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match="api_keys_file"):
        read_keys(GatewayConfig(api_keys_file=str(path)))


@pytest.mark.parametrize(
    "settings",
    [
        {"api_keys": ("",)},
        {"admin_key": ""},
        {"api_keys": ("alice: ",)},
        {"api_keys": ("al ice: SECRET",)},
        {"api_keys": (f"{'a' * 65}: SECRET",)},
        {"api_keys": ("sha256:SECRET",)},
        {"api_keys": (hashed("x") + "0SECRET",)},
        {"api_keys": ("SECRET", "SECRET")},
        {"api_keys": ("SECRET",), "admin_key": "SECRET"},
        {"api_keys": ("SECRET", hashed("SECRET"))},
        {"api_keys": ("the SECRET of alice",)},
    ],
)
def test_keys_that_cannot_be_used_are_refused_without_being_shown(settings):
    with pytest.raises(ConfigError, match=r"gateway\.(api_keys|admin_key)") as refusal:
        read_keys(GatewayConfig(**settings))
    assert "SECRET" not in str(refusal.value)


def test_a_line_that_is_no_key_is_named(tmp_path):
    path = tmp_path / "admin"
    path.write_text("# the operator's\n\nthe key, for the client; it is shown only here:\n  sk-1\n", "utf-8")
    with pytest.raises(ConfigError, match=r"admin_key_file: .*/admin, line 3: this is no key: it has spaces"):
        read_keys(GatewayConfig(admin_key_file=str(path)))
