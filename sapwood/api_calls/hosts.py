"""Which outside addresses a program may call: a list that the program's author makes. Resolves and calls nothing.

An entry is a host, which is called at its scheme's own port and only at public addresses, or "host:port", which may
also be on this machine or in its private network ("127.0.0.1:8080"). URLs are parsed by the parser of the client that
calls them, so what is checked is what is called.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import httpx

from sapwood.errors import CallRefused, ProgramError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}
PRIVATE_NETWORKS = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
OTHERS_INSIDE = ipaddress.IPv6Network("2002::/16")  # 6to4: an IPv4 address, public or not


@dataclass(frozen=True)
class Entry:
    host: str  # as it goes over the wire: lower case, ASCII
    port: int | None

    @classmethod
    def of(cls, text: object) -> Self:
        """Raises ProgramError for what is no host or "host:port". There are no patterns: each host is listed."""
        if not isinstance(text, str) or "*" in text:
            raise ProgramError(f'api_hosts: {text!r}: expected a host ("api.example.com") or "host:port"')
        try:
            url = httpx.URL(f"any://{text}")
        except httpx.InvalidURL as error:
            raise ProgramError(f"api_hosts: {text!r}: {error}") from error
        host = url.raw_host.decode()
        if not host or "%" in host or url.userinfo or url.raw_path not in (b"", b"/") or text.endswith("/"):
            raise ProgramError(f'api_hosts: {text!r}: expected a host ("api.example.com") or "host:port"')
        address = parse_address(host)
        if address is None and ends_in_number(host):
            raise ProgramError(f"api_hosts: {text!r}: write an address as four decimal numbers")
        if address is not None and url.port is None and not is_public(address):
            raise ProgramError(f"api_hosts: {text!r} is not a public address: list it with its port")
        return cls(host, url.port)

    def permits(self, address: IPAddress) -> bool:
        """Whether this host may have this address."""
        if is_public(address):
            return True
        if self.port is None:
            return False
        return parse_address(self.host) == address or address.is_loopback or is_in_private_network(address)


@dataclass(frozen=True)
class Target:
    """A URL that may be called, if its host's address is one that `entry` permits."""

    url: httpx.URL
    port: int
    entry: Entry


@dataclass(frozen=True)
class ApiHosts:
    entries: frozenset[Entry] = frozenset()

    @classmethod
    def of(cls, hosts: Iterable[str]) -> Self:
        if isinstance(hosts, str):
            raise ProgramError("api_hosts: expected a list of hosts")
        return cls(frozenset(map(Entry.of, hosts)))

    def target(self, text: str) -> Target:
        """Raises CallRefused for whatever is not listed."""
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as error:
            raise CallRefused(f"not a URL: {error}") from error
        if url.scheme not in DEFAULT_PORTS:
            raise CallRefused(f"{url.scheme or 'a URL without scheme'}: only http and https are called")
        if url.userinfo:
            raise CallRefused("a URL that holds a user's name or password is not called")
        return self._listed(url)

    def _listed(self, url: httpx.URL) -> Target:
        host, default_port = url.raw_host.decode(), DEFAULT_PORTS[url.scheme]
        port = url.port or default_port
        for entry in (Entry(host, port), Entry(host, None)):
            if entry in self.entries and port == (entry.port or default_port):
                return Target(url, port, entry)
        raise CallRefused(f"{host}:{port} is not among the hosts that this program may call (api_hosts)")


def parse_address(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def ends_in_number(host: str) -> bool:
    """Resolvers read such a name as an address: 127.1, 0x7f.0.0.1, 2130706433."""
    last = host.rstrip(".").rpartition(".")[2]
    return last.isdigit() or last.startswith("0x")


def is_public(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        return address.is_global and address in GLOBAL_UNICAST and address not in OTHERS_INSIDE
    return address.is_global and not address.is_multicast


def is_in_private_network(address: IPAddress) -> bool:
    return any(address in network for network in PRIVATE_NETWORKS)
