"""What can go wrong in a program, in one tree. Knows no transport: backends turn what they meet into these.

SapwoodError
├── BackendError            the backend did not answer as it should; `request_id` finds the request in the server's log
│   ├── ConnectionFailed    nothing answers there, or the connection broke
│   ├── TimedOut            no answer in the time allowed
│   ├── NotStarted          a server that was to start here did not; its last lines are in the message and in `log`
│   └── ServerError         an answer that says no: `status`, `code`, `param`
│       └── Overloaded      not now; `retry_after_s` if the server said when
├── ProgramError            the program itself is wrong: it will fail again
├── InvalidOutput           what the model wrote is not of the type asked for, mostly for want of tokens: `text`
├── CallRefused             an outside call that the program's author has not allowed
└── CallFailed              an outside call that was made, and came to nothing
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SapwoodError(Exception):
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """As it is, whatever its constructor takes: errors come back from processes and are copied."""
        return _again, (type(self), self.args, vars(self))


class BackendError(SapwoodError):
    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id


class ConnectionFailed(BackendError):
    pass


class TimedOut(BackendError):
    pass


class NotStarted(BackendError):
    def __init__(self, message: str, log: str) -> None:
        super().__init__(f"{message}; it said:\n{log}" if log else message)
        self.log = log


class ServerError(BackendError):
    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.status = status
        self.code = code
        self.param = param


class Overloaded(ServerError):
    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code, param=param, request_id=request_id)
        self.retry_after_s = retry_after_s


class ProgramError(SapwoodError):
    pass


class InvalidOutput(SapwoodError):
    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class CallRefused(SapwoodError):
    pass


class CallFailed(SapwoodError):
    pass


def _again(kind: type[SapwoodError], args: tuple[Any, ...], state: dict[str, Any]) -> SapwoodError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error
