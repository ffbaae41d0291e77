"""`call_api`: an outside call in a program. What is allowed and how it is made is in this package's other files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.api_calls.defaults import hosts_for
from sapwood.api_calls.fetch import MAX_BYTES, TIMEOUT_S, Method
from sapwood.api_calls.work import CallWork
from sapwood.current import required_state
from sapwood.values import Value


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
        params: of the query, or with POST the body, as JSON. Values of the program are waited for.
        timeout_s: for the whole call.
        max_bytes: of the answer.

    Where the value is read, it raises CallRefused if the address may not be called or redirects, and CallFailed if no
    JSON comes within the limits.
    """
    state = required_state("call_api")
    work = CallWork(
        url=str(url),
        params={key: _read(value) for key, value in (params or {}).items()},
        hosts=hosts_for(state._writer.session.api_hosts),
        method=method,
        timeout_s=timeout_s,
        max_bytes=max_bytes,
    )
    return state.defer(name, work)


def _read(value: object) -> object:
    return value._value() if isinstance(value, Value) else value
