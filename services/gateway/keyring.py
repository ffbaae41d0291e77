"""Who calls: API keys, and the tenant and the limits that each one stands for.

Knows keys only as digests. Does not know HTTP.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from shared.api_keys import Key, digest, limits_of_nobody, read_keys
from shared.config import GatewayConfig, KeyLimits
from shared.namespaces import weighted

NO_LIMITS = KeyLimits()


@dataclass(frozen=True)
class Caller:
    """Who asks. `tenant` is a hash of the key's name, or of a key without one, fit for logs; requests of different
    tenants share no cache."""

    tenant: str = ""
    is_admin: bool = False
    limits: KeyLimits = NO_LIMITS


class Keyring:
    """The keys that are accepted. Without API keys the server is open, and without any key everyone is its admin.

    The operator's admin key has no limits. Raises ConfigError if the keys cannot be used.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self.read()

    def read(self) -> None:
        """Anew, as the files are now. Raises ConfigError if they cannot be used: the keys are then those of before."""
        keys, admin = read_keys(self._config)
        callers = {key.digest: _caller(key, self._config.key_limits.of(key.name)) for key in keys}
        self.tenants = {key.name: callers[key.digest].tenant for key in keys if key.name is not None}
        self.limits_of_nobody = limits_of_nobody(self._config, keys)
        self.are_needed = bool(callers)
        self._anyone = Caller(is_admin=admin is None)
        if admin is not None:
            callers[admin.digest] = Caller(admin.tenant, is_admin=True)
        self._callers = callers

    @property
    def count(self) -> int:
        return len(self._callers)

    def identify(self, token: str | None) -> Caller | None:
        """The caller behind a token; None if it may not come in. Takes as long for a wrong key as for a right one."""
        presented = digest(token or "")
        found = None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, presented):
                found = caller
        if found is None and not self.are_needed:
            return self._anyone
        return found


def _caller(key: Key, limits: KeyLimits) -> Caller:
    weight = 1 if limits.cache_weight is None else limits.cache_weight
    return Caller(weighted(key.tenant, weight), limits=limits)
