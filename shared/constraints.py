"""The name by which scheduler and executor speak of a constraint."""

from __future__ import annotations

import hashlib

import msgspec

from shared import wire


def key_of(constraint: wire.Constraint) -> str:
    """The same for the same constraint, in every process."""
    return hashlib.sha256(msgspec.msgpack.encode(constraint)).hexdigest()
