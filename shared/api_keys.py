"""The API keys of a configuration, in it and in files: how each is written, and which cannot be used together.

A name may have several keys, such as an old one and a new one: they are the same tenant's. Knows keys only as digests.
Does not know who calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shared.config import ConfigError, GatewayConfig

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
        if len(key.split()) > 1:
            raise ConfigError("this is no key: it has spaces")
        if not key or key.endswith(":"):  # a name and nothing behind it
            raise ConfigError("a key must not be empty")
        if colon and not _NAME.fullmatch(name):
            raise ConfigError("a key's name has letters, digits, - and _ only, 64 at most")
        return cls(_digest_of(key), name or None)

    @property
    def tenant(self) -> str:
        """The name's where there is one: it is the same for its next key."""
        who = b"tenant:" + self.digest if self.name is None else f"name:{self.name}".encode()
        return hashlib.sha256(who).hexdigest()[:16]


class ApiKeys(NamedTuple):
    keys: list[Key]
    admin: Key | None


def read_keys(config: GatewayConfig) -> ApiKeys:
    """Raises ConfigError if they cannot be used."""
    keys = [*_read_all("gateway.api_keys", config.api_keys), *_keys_of_file("api_keys_file", config.api_keys_file)]
    admin = _admin_key(config)
    if len({key.digest for key in (*keys, *admin)}) < len(keys) + len(admin):
        raise ConfigError("gateway.api_keys, gateway.admin_key: the same key is there twice")
    return ApiKeys(keys, admin[0] if admin else None)


def limits_of_nobody(config: GatewayConfig, keys: Iterable[Key]) -> list[str]:
    """The names in `key_limits` that no key has."""
    return sorted(config.key_limits.names.keys() - {key.name for key in keys})


def key_lines(path: Path) -> dict[int, str]:
    """Of a file, by number: one key a line, but for blank lines and those that begin with #.

    Raises OSError, UnicodeDecodeError.
    """
    lines = enumerate(map(str.strip, path.read_text("utf-8").splitlines()), 1)
    return {number: line for number, line in lines if line and not line.startswith("#")}


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _read(where: str, text: str) -> Key:
    try:
        return Key.read(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _read_all(setting: str, texts: Iterable[str]) -> list[Key]:
    return [_read(setting, text) for text in texts]


def _admin_key(config: GatewayConfig) -> list[Key]:
    """None or one. Without its name, which is no tenant's."""
    texts = () if config.admin_key is None else (config.admin_key,)
    found = [*_read_all("gateway.admin_key", texts), *_keys_of_file("admin_key_file", config.admin_key_file)]
    if len(found) > 1:
        raise ConfigError("gateway.admin_key, gateway.admin_key_file: there is more than one admin key")
    return [Key(key.digest) for key in found]


def _keys_of_file(setting: str, path: str | None) -> list[Key]:
    if path is None:
        return []
    try:
        lines = key_lines(Path(path).expanduser())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.{setting}: cannot read {path}: {error}") from error
    keys = [_read(f"gateway.{setting}: {path}, line {number}", line) for number, line in lines.items()]
    if not keys:
        raise ConfigError(f"gateway.{setting}: {path} holds no key")
    return keys


def _digest_of(key: str) -> bytes:
    """Raises ConfigError for what looks like a digest and is none."""
    if not key.startswith(HASHED):
        return digest(key)
    hexadecimal = key.removeprefix(HASHED).lower()
    if not _DIGEST.fullmatch(hexadecimal):
        raise ConfigError(f"behind {HASHED} 64 hexadecimal digits are expected")
    return bytes.fromhex(hexadecimal)
