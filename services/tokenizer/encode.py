"""From what a client asked to what the scheduler runs: `wire.Encode` in, `wire.Submit` or `wire.Error` out.

Pure: no socket, no clock. Checks everything that is counted in tokens or names a token; what can be checked without a
tokenizer, the gateway has checked. Knows nothing of scheduling.

An empty prompt is one token, the beginning of sequence, if the model wants one in front of a prompt, and is refused
otherwise. NUL and other control characters are text like any other; a lone surrogate is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.tokenizer.codec import Codec, Ids, NotText
from services.tokenizer.jinja_sandbox import TemplateFailed
from services.tokenizer.templates import ChatTemplate
from shared import wire
from shared.model_card import ModelCard


class _Refused(Exception):
    def __init__(self, error: wire.Error) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class Encoder:
    card: ModelCard
    codec: Codec
    template: ChatTemplate

    @classmethod
    def of(cls, card: ModelCard, codec: Codec) -> Encoder:
        template = ChatTemplate(
            card.chat_template,
            bos_token=card.bos_token,
            eos_token=card.eos_token,
            special_tokens=codec.special_tokens,
        )
        return cls(card, codec, template)

    def encode(self, request: wire.Encode, gateway: str) -> wire.Submit | wire.Error:
        """The request as token ids, with its limit set to what the context leaves."""
        try:
            self._check_ids(request)
            prompt = self._prompt(request)
            room = self._room(prompt, _param(request))
        except _Refused as refused:
            return refused.error
        limit = room if request.max_new_tokens is None else min(request.max_new_tokens, room)
        return wire.Submit(
            request_id=request.request_id,
            attempt=request.attempt,
            gateway=gateway,
            prompt_token_ids=prompt,
            sampling=request.sampling,
            text=request.text,
            max_new_tokens=limit,
            resume_token_ids=request.resume_token_ids,
            text_offset=request.text_offset,
            constraint=request.constraint,
            namespace=request.namespace,
            priority=request.priority,
            time_left_s=request.time_left_s,
            trace_id=request.trace_id,
            samples=request.samples,
        )

    def convert(self, request: wire.Text) -> wire.TextReply:
        """Tokenize, count or detokenize."""
        try:
            match request.op:
                case "tokenize":
                    ids = self._side_ids(request)
                    tokens = self.codec.tokens(ids) if request.with_tokens else ()
                    return wire.TextReply(request.call_id, token_ids=ids, count=len(ids), tokens=tokens)
                case "count":
                    return wire.TextReply(request.call_id, count=len(self._side_ids(request)))
                case "detokenize":
                    return self._detokenize(request)
        except _Refused as refused:
            return wire.TextReply(request.call_id, error=refused.error)

    def _prompt(self, request: wire.Encode) -> Ids:
        if request.prompt is not None:
            return self._encode_prompt(request.prompt)
        if request.messages is not None:
            return self._encode_messages(request.messages, request)
        return request.prompt_token_ids or ()

    def _encode_prompt(self, text: str, *, bare: bool = False) -> Ids:
        self._refuse_endless(len(text), "prompt")
        try:
            return self.codec.encode_bare(text) if bare else self.codec.encode_prompt(text)
        except NotText as error:
            raise _invalid(str(error), "prompt") from error

    def _encode_messages(self, messages: tuple[wire.ChatMessage, ...], request: wire.Encode | wire.Text) -> Ids:
        try:
            pieces = self.template.render(messages, request.tools, request.template_options)
            self._refuse_endless(sum(len(piece.text) for piece in pieces), "messages", at_least=len(pieces))
            return self.codec.encode_pieces(pieces)
        except TemplateFailed as error:
            raise _invalid(str(error), error.param) from error
        except NotText as error:
            raise _invalid(str(error), "messages") from error

    def _side_ids(self, request: wire.Text) -> Ids:
        if request.messages is not None:
            return self._encode_messages(request.messages, request)
        return self._encode_prompt(request.prompt or "", bare=not request.add_special_tokens)

    def _detokenize(self, request: wire.Text) -> wire.TextReply:
        ids = request.token_ids or ()
        self._check_range(ids, "tokens")
        text = self.codec.decode(ids, skip_special_tokens=request.skip_special_tokens)
        return wire.TextReply(request.call_id, token_ids=ids, count=len(ids), text=text)

    def _check_ids(self, request: wire.Encode) -> None:
        self._check_range(request.prompt_token_ids or (), "prompt")
        self._check_range(request.resume_token_ids, "resume_token_ids")
        self._check_range(request.sampling.logit_bias, "logit_bias")
        self._check_range(request.sampling.stop_token_ids, "stop_token_ids")

    def _check_range(self, ids: Iterable[int], param: str) -> None:
        size = self.card.vocab_size
        for token_id in ids:
            if not 0 <= token_id < size:
                raise _invalid(f"{param}: token id {token_id} is not in the model's vocabulary of {size}", param)

    def _room(self, prompt: Ids, param: str) -> int:
        """Tokens that may follow the prompt, at least one. Resumed ones are output: they are in this room."""
        if not prompt:
            raise _invalid("the prompt is empty: it has no token to go on from", param)
        room = self.card.max_model_len - len(prompt)
        if room < 1:
            raise self._too_long(f"has {len(prompt)} tokens", param)
        return room

    def _refuse_endless(self, chars: int, param: str, *, at_least: int = 0) -> None:
        """Refuse unread what cannot fit: megabytes would take seconds and hundreds of megabytes to encode.

        `at_least`: so many tokens it has whatever their length, one for each piece.
        """
        at_least = max(at_least, chars // self.codec.longest_token_chars)
        if at_least > self.card.max_model_len:
            raise self._too_long(f"has at least {at_least} tokens", param)

    def _too_long(self, finding: str, param: str) -> _Refused:
        limit = self.card.max_model_len
        return _Refused(
            wire.Error(
                f"The prompt is too long: it {finding}; the model's context length is {limit} tokens, answer included.",
                code="context_length_exceeded",
                param=param,
            )
        )


def _param(request: wire.Encode) -> str:
    return "messages" if request.messages is not None else "prompt"


def _invalid(message: str, param: str) -> _Refused:
    return _Refused(wire.Error(message, param=param))
