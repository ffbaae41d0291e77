"""Traces, for whoever takes requests: one is begun when a request comes, and ended with the account of it.

Knows no library. Here are those that are sent nowhere; `services.gateway.otlp` has the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from services.gateway.traceparent import Parent


class Trace(Protocol):
    """Of one request."""

    @property
    def trace_id(self) -> str:
        """Empty if it belongs to none."""

    def later(self, name: str) -> Trace:
        """Of work that goes on when the request has been answered."""

    def end(self, line: Mapping[str, Any]) -> None:
        """`line` is the account, as it is logged."""


class Tracing(Protocol):
    def begin(self, method: str, route: str, parent: Parent | None) -> Trace: ...

    async def close(self) -> None:
        """Send what has ended, if that does not take long."""


@dataclass(frozen=True)
class Untraced:
    """Nothing is told of the request but its lines in the log."""

    trace_id: str = ""

    def later(self, _name: str) -> Untraced:
        return self

    def end(self, line: Mapping[str, Any]) -> None:
        pass


class NoTracing:
    def begin(self, _method: str, _route: str, parent: Parent | None) -> Untraced:
        return Untraced(parent.trace_id if parent is not None else "")

    async def close(self) -> None:
        pass
