"""What a Sapwood server's /generate answers, as it stands on the wire, and as generations. Asks nothing."""

from __future__ import annotations

import msgspec

from sapwood.backends.protocol import Generation, TokenLogprob
from sapwood.errors import BackendError

Tokens = tuple[TokenLogprob, ...]


class Reason(msgspec.Struct, frozen=True):
    type: str


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    finish_reason: Reason | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    output_token_logprobs: Tokens | None = None
    input_token_logprobs: Tokens | None = None
    output_top_logprobs: tuple[Tokens | None, ...] | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One output; in a stream, all of it so far."""

    text: str
    output_ids: tuple[int, ...]
    meta_info: Meta
    index: int = 0


EVENT = msgspec.json.Decoder(Reply)
REPLIES: msgspec.json.Decoder[Reply | list[Reply]] = msgspec.json.Decoder(Reply | list[Reply])  # one stands alone


def generations_of(replies: Reply | list[Reply], count: int) -> list[Generation]:
    """Raises BackendError if they are not as many."""
    listed = replies if isinstance(replies, list) else [replies]
    if len(listed) != count:
        raise BackendError(f"asked for {count} outputs, the server gave {len(listed)}")
    return [generation_of(reply, index) for index, reply in enumerate(listed)]


def generation_of(reply: Reply, index: int) -> Generation:
    meta = reply.meta_info
    return Generation(
        text=reply.text,
        token_ids=reply.output_ids,
        index=index,
        finish_reason=meta.finish_reason.type if meta.finish_reason else None,
        prompt_tokens=meta.prompt_tokens,
        completion_tokens=meta.completion_tokens,
        cached_tokens=meta.cached_tokens,
        request_id=meta.id,
        logprobs=meta.output_token_logprobs or (),
        prompt_logprobs=meta.input_token_logprobs or (),
        top_logprobs=tuple(each or () for each in meta.output_top_logprobs or ()),
    )
