"""An outside call as a piece of a program: its JSON is the value, and the program's text goes on with it."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import msgspec

from sapwood.api_calls.fetch import MAX_BYTES, TIMEOUT_S, Method, fetch
from sapwood.api_calls.hosts import ApiHosts
from sapwood.deferred import Outcome, Situation
from sapwood.trace import Kind


class CallWork(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    params: Mapping[str, object]
    hosts: ApiHosts
    method: Method = "GET"
    timeout_s: float = TIMEOUT_S
    max_bytes: int = MAX_BYTES
    kind: Kind = "call"

    async def outcome(self, situation: Situation) -> Outcome:
        value = await fetch(
            self.url,
            self.params,
            self.hosts,
            method=self.method,
            timeout_s=self.timeout_s,
            max_bytes=self.max_bytes,
        )
        return Outcome(text=msgspec.json.encode(value).decode(), value=value)

    def details(self) -> Mapping[str, str]:
        return {"url": f"{self.method} {without_query(self.url)}"}


def without_query(url: str) -> str:
    try:
        return str(httpx.URL(url).copy_with(query=None, fragment=None, userinfo=b""))
    except httpx.InvalidURL:
        return "?"
