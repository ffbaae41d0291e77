"""The backend of programs that are not told another one."""

from __future__ import annotations

from functools import lru_cache

from sapwood.backends.protocol import AnyBackend, Backend, HasBackend
from sapwood.errors import ProgramError

_default: Backend | None = None


def set_default_backend(backend: AnyBackend) -> None:
    """A client, a runtime, or the URL of a Sapwood server."""
    global _default
    _default = as_backend(backend)


def default_backend() -> Backend:
    """Raises ProgramError if none was set."""
    if _default is None:
        raise ProgramError('no backend: set_default_backend("http://127.0.0.1:30000"), or run(…, backend=…)')
    return _default


def as_backend(backend: AnyBackend | None) -> Backend:
    match backend:
        case None:
            return default_backend()
        case str():
            return _at(backend)
        case HasBackend():
            return backend.backend
        case Backend():
            return backend
        case _:
            raise ProgramError(f"{backend!r} is no backend: a client, a runtime, or the URL of a Sapwood server")


@lru_cache
def _at(url: str) -> Backend:
    """One for each URL, so that its connections are used again."""
    from sapwood.backends.native import NativeBackend

    return NativeBackend(url)
