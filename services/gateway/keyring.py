"""Who calls: API keys, and the tenant and the limits that each one stands for.

Knows keys only as digests. Does not know HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from shared.config import ConfigError, GatewayConfig, KeyLimits, KeyLimitsConfig
from shared.key_files import key_lines
from shared.namespaces import weighted

HASHED = "sha256:"  # before the digest that stands for a key
NO_LIMITS = KeyLimits()

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Caller:
    """Who asks. `tenant` is a hash of the key, fit for logs; requests of different tenants share no cache."""

    tenant: str = ""
    is_admin: bool = False
    limits: KeyLimits = NO_LIMITS


@dataclass(frozen=True)
class Key:
    digest: bytes
    name: str | None = None

    @classmethod
    def read(cls, text: str) -> Key:
        """Of "key", "name: key" or "name: sha256:digest". Raises ConfigError, which does not repeat the text."""
        name, colon, key = text.strip().rpartition(": ")
        name, key = name.strip(), key.strip()
        if not key or key.endswith(":"):  # a name and nothing behind it
            raise ConfigError("a key must not be empty")
        if colon and not _NAME.fullmatch(name):
            raise ConfigError("a key's name has letters, digits, - and _ only, 64 at most")
        return cls(_digest_of(key), name or None)

    @property
    def tenant(self) -> str:
        """The same, whether the key is given or its digest."""
        return hashlib.sha256(b"tenant:" + self.digest).hexdigest()[:16]


class Keyring:
    """The keys that are accepted. Without API keys the server is open, and without any key everyone is its admin.

    The operator's admin key has no limits.
    """

    def __init__(self, keys: Sequence[Key], admin: Key | None, limits: KeyLimitsConfig) -> None:
        self._callers = {key.digest: _caller(key, limits.of(key.name)) for key in keys}
        self.tenants = {key.name: self._callers[key.digest].tenant for key in keys if key.name is not None}
        self.are_needed = bool(self._callers)
        self._anyone = Caller(is_admin=admin is None)
        if admin is not None:
            self._callers[admin.digest] = Caller(admin.tenant, is_admin=True)

    @classmethod
    def of(cls, config: GatewayConfig) -> Keyring:
        """Raises ConfigError if the keys cannot be used."""
        keys = [*_read("gateway.api_keys", config.api_keys), *_keys_of_file("api_keys_file", config.api_keys_file)]
        _check_names([key.name for key in keys if key.name is not None], config.key_limits)
        admin = _admin_key(config)
        if len({key.digest for key in (*keys, *admin)}) < len(keys) + len(admin):
            raise ConfigError("gateway.api_keys, gateway.admin_key: the same key is there twice")
        return cls(keys, admin[0] if admin else None, config.key_limits)

    def identify(self, token: str | None) -> Caller | None:
        """The caller behind a token; None if it may not come in. Takes as long for a wrong key as for a right one."""
        presented = _hash(token or "")
        found = None
        for digest, caller in self._callers.items():
            if hmac.compare_digest(digest, presented):
                found = caller
        if found is None and not self.are_needed:
            return self._anyone
        return found


def _caller(key: Key, limits: KeyLimits) -> Caller:
    weight = 1 if limits.cache_weight is None else limits.cache_weight
    return Caller(weighted(key.tenant, weight), limits=limits)


def _read(where: str, texts: Iterable[str]) -> list[Key]:
    try:
        return [Key.read(text) for text in texts]
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _admin_key(config: GatewayConfig) -> list[Key]:
    """None or one."""
    texts = () if config.admin_key is None else (config.admin_key,)
    found = [*_read("gateway.admin_key", texts), *_keys_of_file("admin_key_file", config.admin_key_file)]
    if len(found) > 1:
        raise ConfigError("gateway.admin_key, gateway.admin_key_file: there is more than one admin key")
    return found


def _keys_of_file(setting: str, path: str | None) -> list[Key]:
    if path is None:
        return []
    try:
        lines = key_lines(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.{setting}: cannot read {path}: {error}") from error
    keys = _read(f"gateway.{setting} {path}", lines)
    if not keys:
        raise ConfigError(f"gateway.{setting}: {path} holds no key")
    return keys


def _check_names(names: list[str], limits: KeyLimitsConfig) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"gateway.api_keys: two keys are called {twice!r}")
    for name in limits.names.keys() - set(names):
        near = get_close_matches(name, names, n=1, cutoff=0.0)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"gateway.key_limits.names: no key is called {name!r}{hint}")


def _digest_of(key: str) -> bytes:
    """Raises ConfigError for what looks like a digest and is none."""
    if not key.startswith(HASHED):
        return _hash(key)
    digest = key.removeprefix(HASHED).lower()
    if not _DIGEST.fullmatch(digest):
        raise ConfigError(f"behind {HASHED} 64 hexadecimal digits are expected")
    return bytes.fromhex(digest)


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
