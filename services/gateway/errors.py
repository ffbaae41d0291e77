"""What a client is told when a request cannot be served. One exception, in the words of OpenAI's error object, and the
two shapes that it takes: OpenAI's, and Anthropic's on the routes that are theirs.

ApiError                any refusal or failure with an HTTP status
├── InvalidRequest      400: the client can mend it; `param` names the field
└── Unread              the body has not been read to its end, so the connection ends too
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from shared import wire

CLIENT_CLOSED_STATUS = 499  # never sent: it is for the log

ANTHROPIC_ROUTE = "/v1/messages"  # and what is below it

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    505: "invalid_request_error",  # of HTTP: the client can mend it
}
ANTHROPIC_TYPES = TYPES | {
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}

ErrorForm: TypeAlias = Callable[[wire.Error], dict[str, Any]]


class ApiError(Exception):
    def __init__(self, error: wire.Error) -> None:
        super().__init__(error.message)
        self.error = error


class InvalidRequest(ApiError):
    def __init__(self, problem: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(wire.Error(f"{param}: {problem}" if param else problem, code, param))
        self._problem = problem

    def under(self, path: str) -> InvalidRequest:
        """The same, where `param` stood for a place below `path`."""
        return self.called(f"{path}.{self.error.param}" if self.error.param else path)

    def called(self, param: str | None) -> InvalidRequest:
        """The same of a parameter that the client knows by this name."""
        return InvalidRequest(self._problem, param, self.error.code)


class Unread(ApiError):
    pass


@contextlib.contextmanager
def within(path: str) -> Iterator[None]:
    """What is found invalid in this block lies below `path` in the body."""
    try:
        yield
    except InvalidRequest as error:
        raise error.under(path) from None


def error_form(path: str, request_id: str) -> ErrorForm:
    """How errors look to the clients of this path."""
    return partial(anthropic_error_body, request_id) if is_anthropics(path) else error_body


def is_anthropics(path: str) -> bool:
    return path == ANTHROPIC_ROUTE or path.startswith(f"{ANTHROPIC_ROUTE}/")


def error_body(error: wire.Error) -> dict[str, Any]:
    """All four keys, always."""
    fallback = "server_error" if error.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": error.message,
            "type": TYPES.get(error.status, fallback),
            "param": error.param,
            "code": error.code,
        }
    }


def anthropic_error_body(request_id: str, error: wire.Error) -> dict[str, Any]:
    fallback = "api_error" if error.status >= 500 else "invalid_request_error"
    kind = ANTHROPIC_TYPES.get(error.status, fallback)
    return {"type": "error", "error": {"type": kind, "message": error.message}, "request_id": request_id}


def may_pass(error: wire.Error) -> bool:
    """Whether the same request may succeed later. (What dies on its way is submitted again before it is an error.)"""
    return error.status in (429, 503) or error.code == "timeout"
