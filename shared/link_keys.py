"""CURVE keys of the links between machines: a folder for each role, with its own secret and everybody's public keys.

    keys/tokenizer/tokenizer.key_secret     its own
    keys/tokenizer/gateway.key              whom it may meet: a public key a file, named for its holder's role
    keys/tokenizer/executor-2.key           several keys may stand for a role, but for gateway and scheduler

The files are ZeroMQ certificates. Whoever holds a role's secret is that role: replicas of one stage share it. Knows
files and roles, no socket.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import zmq.auth

from shared import wire
from shared.config import ConfigError
from shared.private_files import private_files

ROLES: tuple[wire.Role, ...] = get_args(wire.Role)


@dataclass(frozen=True)
class LinkKeys:
    """`roles` says for each public key that is listed whose it is."""

    public: bytes
    secret: bytes
    roles: dict[bytes, wire.Role]

    def public_of(self, role: wire.Role) -> bytes:
        """Of a role that binds. Raises ConfigError unless exactly one key is listed for it."""
        listed = [key for key, holder in self.roles.items() if holder == role]
        if len(listed) != 1:
            raise ConfigError(f"links.keys_dir: {len(listed)} keys are listed for the {role}; it has to be one")
        return listed[0]


def load_keys(folder: Path, role: wire.Role) -> LinkKeys:
    """The keys of the process that plays this role. Raises ConfigError for what is missing, wrong or open to others."""
    own = folder / role / f"{role}.key_secret"
    if not own.exists():
        raise ConfigError(f"links.keys_dir: there is no {own}{_misplaced(folder, role)}")
    public, secret = _read(own)
    if secret is None:
        raise ConfigError(f"links.keys_dir: there is no secret key in {own}")
    if own.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigError(f"links.keys_dir: everybody on this machine may read {own}; chmod 600 it")
    roles: dict[bytes, wire.Role] = {}
    for path in sorted(own.parent.glob("*.key")):
        key, _ = _read(path)
        if key in roles:
            raise ConfigError(f"links.keys_dir: {path} holds the key of a {roles[key]} once more")
        roles[key] = _role_of(path)
    return LinkKeys(public, secret, roles)


def make_keys(folder: Path) -> None:
    """A key for each role that has none, and everybody's public keys for each. Raises ConfigError if that fails."""
    try:
        with private_files():
            for role in ROLES:
                _make_own(folder / role, role)
            for role in ROLES:
                for other in ROLES:
                    name = f"{other}.key"
                    (folder / role / name).write_bytes((folder / other / name).read_bytes())
    except OSError as error:
        raise ConfigError(f"link keys: {error}") from error


def _make_own(folder: Path, role: wire.Role) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{role}.key_secret").exists():
        zmq.auth.create_certificates(folder, role)


def _read(path: Path) -> tuple[bytes, bytes | None]:
    try:
        return zmq.auth.load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"links.keys_dir: {path}: {error}") from error


def _misplaced(folder: Path, role: wire.Role) -> str:
    if (folder / f"{role}.key_secret").exists():
        return f"; what lies in {folder} belongs into a folder {role} in it"
    return "; keys are made by sapwood link-keys, a folder for each role, and each keeps its name"


def _role_of(path: Path) -> wire.Role:
    name = path.stem.partition("-")[0]
    for role in ROLES:
        if role == name:
            return role
    raise ConfigError(f"links.keys_dir: {path} is not named for a role: {', '.join(ROLES)}")
