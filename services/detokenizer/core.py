"""The table of open requests: what the scheduler sends in, what goes to gateways and back to the scheduler out.

Pure: messages in, commands out; no socket, no clock. Owns one `TextStream` for each request.

Each attempt gets exactly one terminal update from here, or an `Abort` marked stale: then this process has no state for
it (a gap in the offsets, an unknown request, a gateway that is not linked, too many requests). That cannot hang a
client: the scheduler forgets the attempt, the gateway's audit still lists it, is answered `Lost`, and the gateway
submits the next attempt with all it has received. For the same reason nothing is kept for a gateway that is away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from services.detokenizer.incremental import TextStream
from services.detokenizer.vocabulary import Vocabulary
from shared import wire
from shared.stop_pattern import BadPattern

MAX_OPEN = 8192  # far more than a scheduler runs at once: only a fuse against requests that never end
ENDED_KEPT = 1024  # attempts ended here whose last tokens may still be under way

_Key = tuple[str, str]  # gateway, request_id


class Send(msgspec.Struct, frozen=True):
    gateway: str
    update: wire.TextUpdate
    trace_id: str = ""


Command = Send | wire.Abort


@dataclass
class _Request:
    """Output tokens [0, tokens) are in the stream. Text [0, sent_chars) was sent, by this attempt or an earlier one."""

    attempt: int
    text: wire.TextOptions
    stream: TextStream
    tokens: int
    sent_chars: int
    trace_id: str
    unsent: str  # let go by the stream, up to stream.chars; only a resumed request has any between two updates

    def take(self, token_ids: Sequence[int]) -> int:
        """Take in tokens; returns how many: fewer if a stop string ended the text."""
        text, taken = self.stream.push(token_ids)
        self.unsent += text
        return taken

    def finish(self) -> None:
        self.unsent += self.stream.finish()

    def send(self) -> tuple[int, str]:
        """Text to send now, and its offset: [sent_chars, stream.chars)."""
        start = self.stream.chars - len(self.unsent)
        offset, text = self.sent_chars, self.unsent[max(0, self.sent_chars - start) :]
        self.sent_chars += len(text)
        self.unsent = ""
        return offset, text


class Core:
    def __init__(self, vocabulary: Vocabulary, *, max_open: int = MAX_OPEN) -> None:
        self._vocabulary = vocabulary
        self._max_open = max_open
        self._gateways: set[str] = set()
        self._open: dict[_Key, _Request] = {}  # the least recently heard of first
        self._ended: dict[_Key, int] = {}  # attempt, by the order of their ends

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def gateway_joined(self, gateway: str) -> None:
        self._gateways.add(gateway)

    def gateway_left(self, gateway: str) -> list[Command]:
        """Text that was under way to it may be lost, so its requests cannot go on here."""
        self._gateways.discard(gateway)
        gone = [key for key in self._open if key[0] == gateway]
        return [_abort(key, self._open.pop(key).attempt, "gateway_gone") for key in gone]

    def hub_left(self) -> None:
        """Another grant is another life of the scheduler: all attempts are void."""
        self._open.clear()
        self._ended.clear()

    def open(self, message: wire.Open) -> list[Command]:
        key = (message.gateway, message.request_id)
        held = self._open.get(key)
        if held is not None and held.attempt >= message.attempt:
            return []
        if message.gateway not in self._gateways:
            self._open.pop(key, None)
            return [_abort(key, message.attempt, "gateway_gone")]
        self._open.pop(key, None)
        try:
            self._open[key] = self._resumed(message)
        except BadPattern:  # no gateway lets it through
            return [_abort(key, message.attempt, "stale")]
        return [self._drop(next(iter(self._open)))] if len(self._open) > self._max_open else []

    def take(self, update: wire.TokenUpdate) -> list[Command]:
        key = (update.gateway, update.request_id)
        if self._ended.get(key, 0) >= update.attempt:
            return []
        request = self._open.get(key)
        if request is None or request.attempt < update.attempt:
            return [_abort(key, update.attempt, "stale")]
        if request.attempt > update.attempt:
            return []
        if update.offset > request.tokens:
            return [self._drop(key)]
        self._open[key] = self._open.pop(key)
        return self._advance(key, request, update)

    def _resumed(self, message: wire.Open) -> _Request:
        """As it stood after the tokens of earlier attempts. A stop string among them ends it at its next update."""
        stream = TextStream(self._vocabulary, message.text)
        text, _ = stream.push(message.resume_token_ids)
        return _Request(
            message.attempt,
            message.text,
            stream,
            len(message.resume_token_ids),
            message.text_offset,
            message.trace_id,
            unsent=text,
        )

    def _advance(self, key: _Key, request: _Request, update: wire.TokenUpdate) -> list[Command]:
        skip = request.tokens - update.offset  # taken in before
        token_ids = update.token_ids[skip:]
        taken = request.take(_shown(token_ids, update, request.text))
        if request.stream.matched_stop is None:
            taken = len(token_ids)
            if update.finish_reason is not None:
                request.finish()
        matched_stop = request.stream.matched_stop
        is_terminal = matched_stop is not None or update.finish_reason is not None
        if not taken and not update.prompt_logprobs and not is_terminal:
            return []
        send = self._send(request, update, token_ids[:taken], update.logprobs[skip : skip + taken])
        if not is_terminal:
            return [send]
        self._end(key, request.attempt)
        if update.finish_reason is not None:
            return [send]
        return [send, wire.Abort(update.request_id, update.attempt, update.gateway, "stop_string")]

    def _send(
        self,
        request: _Request,
        update: wire.TokenUpdate,
        token_ids: tuple[int, ...],
        logprobs: tuple[wire.TokenLogprob, ...],
    ) -> Send:
        matched_stop = request.stream.matched_stop
        by_string = matched_stop is not None
        text_offset, text = request.send()
        token_offset = request.tokens
        request.tokens += len(token_ids)
        return Send(
            update.gateway,
            wire.TextUpdate(
                request_id=update.request_id,
                attempt=update.attempt,
                token_offset=token_offset,
                token_ids=token_ids,
                text_offset=text_offset,
                text=text,
                counts=update.counts,
                logprobs=tuple(self._with_bytes(logprob) for logprob in logprobs),
                finish_reason="stop" if by_string else update.finish_reason,
                matched_stop=matched_stop if by_string else update.matched_stop,
                error=None if by_string else update.error,
                prompt_logprobs=tuple(self._with_bytes(logprob) for logprob in update.prompt_logprobs),
            ),
            request.trace_id,
        )

    def _with_bytes(self, logprob: wire.TokenLogprob) -> wire.TextLogprob:
        bytes_of = self._vocabulary.bytes_of
        top = tuple((token_id, value, bytes_of(token_id)) for token_id, value in logprob.top)
        return wire.TextLogprob(logprob.token_id, logprob.logprob, bytes_of(logprob.token_id), top)

    def _drop(self, key: _Key) -> wire.Abort:
        return _abort(key, self._open.pop(key).attempt, "stale")

    def _end(self, key: _Key, attempt: int) -> None:
        del self._open[key]
        self._ended.pop(key, None)
        self._ended[key] = attempt
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]


def _shown(token_ids: tuple[int, ...], update: wire.TokenUpdate, options: wire.TextOptions) -> tuple[int, ...]:
    """The tokens whose text is output: a stop token is not, unless the client wants it."""
    ended_by_last = bool(token_ids) and update.matched_stop == token_ids[-1]
    return token_ids[:-1] if ended_by_last and not options.include_stop else token_ids


def _abort(key: _Key, attempt: int, reason: wire.AbortReason) -> wire.Abort:
    gateway, request_id = key
    return wire.Abort(request_id, attempt, gateway, reason)
