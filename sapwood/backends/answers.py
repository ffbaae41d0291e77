"""What a server said, out of its bytes: what was asked for, or an error of the tree, whatever the bytes are.

Knows JSON, and what errors look like in OpenAI's form and others. What answers are made of, the decoders know.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec

from sapwood.errors import BackendError, Overloaded, ServerError

T = TypeVar("T")

ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
SHOWN_CHARACTERS = 100


class Refusal(NamedTuple):
    message: str
    code: str | None = None
    param: str | None = None


def answer_of(response: httpx.Response, decoder: msgspec.json.Decoder[T]) -> T:
    """No content is null. Raises BackendError for what the decoder does not take."""
    return _decoded(response.content or b"null", decoder, response)


def event_of(data: str, response: httpx.Response, decoder: msgspec.json.Decoder[T]) -> T:
    """Raises ServerError for one that holds an error, BackendError for what the decoder does not take."""
    refusal = refusal_in(data) if '"error"' in data else None
    if refusal is not None:
        raise ServerError(status=500, request_id=request_id_of(response), **refusal._asdict())
    return _decoded(data, decoder, response)


def error_of(response: httpx.Response) -> ServerError:
    """Of an answer that is none."""
    refusal = refusal_in(response.content) or Refusal(response.text[:500] or response.reason_phrase)
    status, request_id = response.status_code, request_id_of(response)
    if status in (429, 503):
        pause = response.headers.get("retry-after", "")
        retry_after_s = float(pause) if pause.isdecimal() else None
        return Overloaded(status=status, retry_after_s=retry_after_s, request_id=request_id, **refusal._asdict())
    return ServerError(status=status, request_id=request_id, **refusal._asdict())


def refusal_in(content: bytes | str) -> Refusal | None:
    with contextlib.suppress(*MALFORMED):
        match ANYTHING.decode(content):
            case {"error": dict(error)}:
                code, param = (_text(error.get(name)) for name in ("code", "param"))
                return Refusal(str(error.get("message", "")), code, param)
            case {"error": str(message)}:
                return Refusal(message)
    return None


def request_id_of(response: httpx.Response) -> str | None:
    request_id: str | None = response.headers.get("x-request-id")
    return request_id


def _decoded(content: bytes | str, decoder: msgspec.json.Decoder[T], response: httpx.Response) -> T:
    try:
        return decoder.decode(content)
    except MALFORMED as error:
        text = content if isinstance(content, str) else content.decode(errors="replace")
        message = f"an answer that is no JSON of this API ({error}): {text[:SHOWN_CHARACTERS]}"
        raise BackendError(message, request_id=request_id_of(response)) from error


def _text(value: object) -> str | None:
    return None if value is None else str(value)
