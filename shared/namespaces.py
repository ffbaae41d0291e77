"""Namespaces of the prefix cache, by name: a tenant's own, or a division of it that a client has asked for.

Requests of different namespaces never share anything. Shares and quotas are the tenant's: they cannot be had twice by
making up divisions. A tenant's name also says for how many it counts where the cache is shared out, if not for one, so
that whoever has the name needs to be told nothing else.
"""

from __future__ import annotations

import hashlib

import msgspec

SEPARATOR = "/"  # in no tenant's name
WEIGHT = "*"  # before a tenant's weight
MAX_WEIGHT = 999


def namespace(tenant: str, extra_key: str | None = None, cache_salt: str | None = None) -> str:
    """The part of the prefix cache that a request may share."""
    if not extra_key and not cache_salt:
        return tenant
    division = hashlib.sha256(msgspec.json.encode([extra_key, cache_salt])).hexdigest()[:16]
    return f"{tenant}{SEPARATOR}{division}"


def tenant_of(namespace: str) -> str:
    return namespace.partition(SEPARATOR)[0]


def weighted(tenant: str, weight: int) -> str:
    """The name of a tenant that counts for so many."""
    return tenant if weight == 1 else f"{tenant}{WEIGHT}{weight}"


def weight_of(tenant: str) -> int:
    weight = tenant.partition(WEIGHT)[2]
    return int(weight) if weight.isdecimal() and len(weight) <= len(str(MAX_WEIGHT)) else 1
