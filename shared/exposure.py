"""Whether a gateway without API keys would be open to more than this machine. Knows the configuration and addresses.

Not among the conflicts of a configuration: where each stage has a machine of its own, the others may not know the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.addresses import is_loopback

if TYPE_CHECKING:
    from shared.config import GatewayConfig


def has_keys(gateway: GatewayConfig) -> bool:
    return bool(gateway.api_keys) or gateway.api_keys_file is not None


def has_tenants(gateway: GatewayConfig) -> bool:
    """Else all requests are those of the same one, who need not leave room for others."""
    return has_keys(gateway) or bool(gateway.admin_key) or gateway.admin_key_file is not None


def exposure(gateway: GatewayConfig) -> str | None:
    """What is wrong, in words for whoever starts it."""
    if gateway.allow_open or has_keys(gateway) or is_loopback(gateway.host):
        return None
    return (
        f"gateway.host (--host) {gateway.host or 'any address'} can be reached from other machines, and there are no "
        "API keys: give some (--api-keys-file, --api-key), or say that it is meant to be open (--allow-open)"
    )
