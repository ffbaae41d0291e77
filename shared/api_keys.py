"""The API keys of a configuration, in it and in files: how each is written, and which cannot be used together.

Knows keys only as digests. Does not know who calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from shared.config import ConfigError, GatewayConfig, KeyLimitsConfig

HASHED = "sha256:"  # before the digest that stands for a key

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


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


class ApiKeys(NamedTuple):
    keys: list[Key]
    admin: Key | None


def read_keys(config: GatewayConfig) -> ApiKeys:
    """Raises ConfigError if they cannot be used."""
    keys = [*_read("gateway.api_keys", config.api_keys), *_keys_of_file("api_keys_file", config.api_keys_file)]
    _check_names([key.name for key in keys if key.name is not None], config.key_limits)
    admin = _admin_key(config)
    if len({key.digest for key in (*keys, *admin)}) < len(keys) + len(admin):
        raise ConfigError("gateway.api_keys, gateway.admin_key: the same key is there twice")
    return ApiKeys(keys, admin[0] if admin else None)


def key_lines(path: Path) -> list[str]:
    """Of a file: one key a line, but for blank lines and those that begin with #.

    Raises OSError, UnicodeDecodeError.
    """
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


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
        return digest(key)
    hexadecimal = key.removeprefix(HASHED).lower()
    if not _DIGEST.fullmatch(hexadecimal):
        raise ConfigError(f"behind {HASHED} 64 hexadecimal digits are expected")
    return bytes.fromhex(hexadecimal)
