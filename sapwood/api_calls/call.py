"""`call_api`: an outside call in a program. What is allowed and how it is made is in this package's other files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.api_calls.defaults import hosts_for
from sapwood.api_calls.fetch import MAX_BYTES, TIMEOUT_S, Method
from sapwood.api_calls.work import CallWork
from sapwood.current import current_api_hosts, required_state
from sapwood.inputs import work_of


def call_api(
    name: str,
    url: str,
    params: Mapping[str, object] | None = None,
    *,
    method: Method = "GET",
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """The JSON value that an API answers, as `s["name"]`; the program's text goes on with it.

    It is called when its turn in the text comes, and only at hosts that the program's author has listed:
    `@function(api_hosts=["api.example.com"])`, or `set_api_hosts([…])` for all programs.

    Args:
        params: of the query, or with POST the body, as JSON. The call waits for values of the
            program in them.
        timeout_s: for the whole call.
        max_bytes: of the answer.

    Where the value is read, it raises CallRefused if the address may not be called or redirects, and CallFailed if no
    JSON comes within the limits.
    """
    state = required_state("call_api")
    hosts = hosts_for(current_api_hosts())
    limits = {"method": method, "timeout_s": timeout_s, "max_bytes": max_bytes}
    return state.defer(name, work_of("call", _call_work, url=url, params=params or {}, hosts=hosts, **limits))


def _call_work(url: object, **rest: Any) -> CallWork:
    return CallWork(url=str(url), **rest)
