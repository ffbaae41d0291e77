"""Which texts are addresses, and which of them this machine."""

import pytest

from shared.addresses import is_address, is_loopback

LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST"]
BEYOND = ["0.0.0.0", "::", "", "192.168.1.4", "example.com", "localhost.example.com", "127.0.0.1.nip.io"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", BEYOND)
def test_what_others_may_reach_too(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(("host", "expected"), [("10.0.0.1", True), ("fe80::1", True), ("gateway", False), ("", False)])
def test_names_are_no_addresses(host, expected):
    assert is_address(host) is expected
