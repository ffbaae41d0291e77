"""The hosts that every program of this process may call, besides those that a program lists itself. None at first."""

from __future__ import annotations

from collections.abc import Iterable

from sapwood.api_calls.hosts import ApiHosts

_everywhere = ApiHosts()


def set_api_hosts(hosts: Iterable[str]) -> None:
    """`set_api_hosts(["api.example.com", "127.0.0.1:8080"])`: instead of what was set before.

    A host alone is called at its scheme's own port, at public addresses. With its port it may also be on this machine
    or in its private network.
    """
    global _everywhere
    _everywhere = ApiHosts.of(hosts)


def hosts_for(own: Iterable[str]) -> ApiHosts:
    """Args:
    own: what the program lists.
    """
    return ApiHosts(ApiHosts.of(own).entries | _everywhere.entries)
