"""What a client is told when a request cannot be served. One exception, in the words of OpenAI's error object.

ApiError                any refusal or failure with an HTTP status
└── InvalidRequest      400: the client can mend it; `param` names the field
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from shared import wire

CLIENT_CLOSED_STATUS = 499  # never sent: it is for the log

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}


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
        param = f"{path}.{self.error.param}" if self.error.param else path
        return InvalidRequest(self._problem, param, self.error.code)


@contextlib.contextmanager
def within(path: str) -> Iterator[None]:
    """What is found invalid in this block lies below `path` in the body."""
    try:
        yield
    except InvalidRequest as error:
        raise error.under(path) from None


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
