"""Where a gateway may listen."""

import pytest

from shared.config import GatewayConfig
from shared.exposure import exposure

LOOPBACK = ["127.0.0.1", "::1", "localhost"]
BEYOND = ["0.0.0.0", "::", "", "192.168.1.4", "example.com"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_keys(host):
    assert exposure(GatewayConfig(host=host)) is None


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_it_keys_are_needed(host):
    found = exposure(GatewayConfig(host=host))
    assert found is not None
    assert host in found
    assert "--allow-open" in found


@pytest.mark.parametrize("settings", [{"api_keys": ("k",)}, {"api_keys_file": "keys"}, {"allow_open": True}])
def test_unless_there_are_some_or_it_is_meant(settings):
    assert exposure(GatewayConfig(host="0.0.0.0", **settings)) is None


def test_the_admin_key_guards_the_admin_routes_alone():
    assert exposure(GatewayConfig(host="0.0.0.0", admin_key="root")) is not None
