"""Namespaces of the prefix cache, by name: a tenant's own, or a division of it that a client has asked for.

Requests of different namespaces never share anything. Shares and quotas are the tenant's: they cannot be had twice by
making up divisions.
"""

from __future__ import annotations

import hashlib

import msgspec

SEPARATOR = "/"  # in no tenant's name


def namespace(tenant: str, extra_key: str | None = None, cache_salt: str | None = None) -> str:
    """The part of the prefix cache that a request may share."""
    if not extra_key and not cache_salt:
        return tenant
    division = hashlib.sha256(msgspec.json.encode([extra_key, cache_salt])).hexdigest()[:16]
    return f"{tenant}{SEPARATOR}{division}"


def tenant_of(namespace: str) -> str:
    return namespace.partition(SEPARATOR)[0]
