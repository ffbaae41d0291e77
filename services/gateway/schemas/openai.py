"""The fields that OpenAI's chat and completions share, those that are harmless, and those that are not there yet."""

from __future__ import annotations

from typing import Any

from services.gateway.errors import ApiError, InvalidRequest, within
from services.gateway.limits import Limits
from services.gateway.replies.openai import StreamOptions
from services.gateway.schemas.constraint import Asked, ConstraintFields, asked_by_fields, only
from services.gateway.schemas.decode import convert
from services.gateway.schemas.response_format import asked_by_format
from services.gateway.schemas.sampling import CacheKey, Priority, SampleCount, Timeout, TokenCount
from shared import wire

ANY_MODEL = "default"

IGNORED = frozenset(
    {
        "metadata",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)


class OpenAIFields(ConstraintFields, frozen=True, kw_only=True):
    model: str = ANY_MODEL
    n: SampleCount = 1
    max_tokens: TokenCount | None = None
    min_tokens: TokenCount = 0
    response_format: dict[str, Any] | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    include_stop_str_in_output: bool = False
    extra_key: CacheKey | None = None
    cache_salt: CacheKey | None = None
    priority: Priority = 0
    timeout: Timeout | None = None  # never longer than the server's own


def stream_options(fields: OpenAIFields) -> StreamOptions:
    if fields.stream_options is None:
        return StreamOptions()
    if not fields.stream:
        raise InvalidRequest("only allowed when stream is true", "stream_options")
    with within("stream_options"):
        return convert(fields.stream_options, StreamOptions)


def asked_constraint(fields: OpenAIFields, limits: Limits) -> Asked:
    """By `response_format`, or by a field of our own."""
    caps = limits.constraints
    return only(asked_by_format(fields.response_format, fields, caps), asked_by_fields(fields, caps))


def check_model(name: str, limits: Limits) -> None:
    if name not in (ANY_MODEL, limits.model_id):
        message = f"the model {name[:128]!r} does not exist; this server has {limits.model_id!r}"
        raise ApiError(wire.Error(message, "model_not_found", "model", 404))
