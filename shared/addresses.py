"""Names and addresses of hosts, as texts. Resolves nothing."""

from __future__ import annotations

import ipaddress


def is_address(host: str) -> bool:
    """And no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether it can only be this machine."""
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
