"""What a caller may do: API keys, the namespace that each key stands for, and the caps on a single request.

Knows keys only as digests. Does not know HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shared.config import Config, ConfigError, ConstraintsConfig, GatewayConfig
from shared.model_card import ModelCard


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on a single request, from the configuration and the model's card."""

    model_id: str
    max_model_len: int
    vocab_size: int
    max_choices: int
    max_stop_strings: int
    max_top_logprobs: int
    max_logit_bias: int
    constraints: ConstraintsConfig

    @classmethod
    def of(cls, config: Config, card: ModelCard) -> Limits:
        return cls(
            model_id=card.model_id,
            max_model_len=card.max_model_len,
            vocab_size=card.vocab_size,
            max_choices=config.gateway.max_choices,
            max_stop_strings=config.gateway.max_stop_strings,
            max_top_logprobs=config.gateway.max_top_logprobs,
            max_logit_bias=config.gateway.max_logit_bias,
            constraints=config.constraints,
        )


@dataclass(frozen=True)
class Caller:
    """Who asks. `tenant` is a hash of the key, fit for logs; requests of different tenants share no cache."""

    tenant: str = ""
    is_admin: bool = False


@dataclass(frozen=True)
class _Key:
    digest: bytes
    caller: Caller


class Keyring:
    """The keys that are accepted. Without API keys the server is open, and without any key everyone is its admin."""

    def __init__(self, api_keys: tuple[str, ...], admin_key: str | None) -> None:
        self._keys = [_Key(_digest(key), Caller(_tenant(key))) for key in api_keys]
        self._is_open = not api_keys
        self._anyone = Caller(is_admin=admin_key is None)
        if admin_key is not None:
            self._keys.append(_Key(_digest(admin_key), Caller(_tenant(admin_key), is_admin=True)))

    @classmethod
    def of(cls, config: GatewayConfig) -> Keyring:
        """Raises ConfigError if the file of keys cannot be used."""
        from_file = _read_keys(config.api_keys_file) if config.api_keys_file is not None else ()
        if "" in (*config.api_keys, config.admin_key):
            raise ConfigError("gateway.api_keys: a key must not be empty")
        return cls((*config.api_keys, *from_file), config.admin_key)

    @property
    def are_needed(self) -> bool:
        return not self._is_open

    def identify(self, token: str | None) -> Caller | None:
        """The caller behind a token; None if it may not come in. Takes as long for a wrong key as for a right one."""
        presented = _digest(token or "")
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, presented):
                found = key.caller
        if found is None and self._is_open:
            return self._anyone
        return found


def _read_keys(path: str) -> tuple[str, ...]:
    """One key a line, optionally "name: key"; blank lines and lines that begin with # do not count."""
    try:
        lines = [line.strip() for line in Path(path).expanduser().read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.api_keys_file: cannot read {path}: {error}") from error
    keys = tuple(line.rpartition(": ")[2].strip() for line in lines if line and not line.startswith("#"))
    if not all(keys) or not keys:
        raise ConfigError(f"gateway.api_keys_file: {path} holds no key")
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _tenant(key: str) -> str:
    return hashlib.sha256(b"tenant:" + key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
