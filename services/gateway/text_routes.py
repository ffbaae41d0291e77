"""The routes of the tokenizer on its own: text to token ids and back, and what a client's own tokenizer has to know."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from services.gateway.bodies import read_body
from services.gateway.dispatch import Dispatcher
from services.gateway.limits import Limits
from services.gateway.middleware import CALLER
from services.gateway.schemas.anthropic import read_count
from services.gateway.schemas.text import Texts, read_detokenize, read_tokenize
from services.gateway.sse import json_response
from services.gateway.text_room import TextCall
from shared import wire
from shared.model_card import ModelCard
from shared.reasoning_format import reasoning_format
from shared.tool_format import tool_format

TEXT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """A tokenizer's, as it will be sent: as JSON it is several times smaller than as objects."""

    count: int
    token_ids: msgspec.Raw
    tokens: msgspec.Raw
    text: msgspec.Raw

    @classmethod
    def of(cls, reply: wire.TextReply) -> Answer:
        return cls(reply.count, _json(reply.token_ids), _json(reply.tokens), _json(reply.text))

    @property
    def size(self) -> int:
        return len(self.token_ids) + len(self.tokens) + len(self.text)


class TextRoutes:
    def __init__(self, dispatcher: Dispatcher, limits: Limits, card: ModelCard) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._card = card
        self._tool_format = tool_format(card.chat_template)
        self._reasoning = reasoning_format(card.chat_template)

    def add_to(self, router: web.UrlDispatcher) -> None:
        for prefix in ("", "/v1"):
            router.add_post(f"{prefix}/tokenize", self.tokenize)
            router.add_post(f"{prefix}/detokenize", self.detokenize)
        router.add_get("/tokenizer_info", self.info)
        router.add_post("/v1/messages/count_tokens", self.count)

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        texts = read_tokenize(body, self._limits, self._tool_format)
        has_tokens = any(question.with_tokens for question in texts.questions)
        with self._open(request, body) as call:
            answers = await self._answers(texts, call)
            reply = {
                "count": _of_all([answer.count for answer in answers], texts),
                "max_model_len": self._limits.max_model_len,
                "tokens": _of_all([answer.token_ids for answer in answers], texts),
                "token_strs": _of_all([answer.tokens for answer in answers], texts) if has_tokens else None,
            }
            return await _sent(request, reply)

    async def detokenize(self, request: web.Request) -> web.StreamResponse:
        """The same text under vLLM's name and under SGLang's."""
        body = await read_body(request)
        texts = read_detokenize(body, self._limits)
        with self._open(request, body) as call:
            text = _of_all([answer.text for answer in await self._answers(texts, call)], texts)
            return await _sent(request, {"prompt": text, "text": text})

    async def count(self, request: web.Request) -> web.Response:
        """Of a conversation, as Anthropic has it."""
        body = await read_body(request)
        question = read_count(body, self._limits, self._tool_format, self._reasoning)
        with self._open(request, body) as call:
            return json_response({"input_tokens": (await self._dispatcher.text(question, call, TEXT_TIMEOUT_S)).count})

    async def info(self, _request: web.Request) -> web.Response:
        """As a `tokenizer_config.json` has it. A special token that the model has not is null."""
        return json_response(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": self._limits.max_model_len,
                "add_bos_token": self._card.add_bos,
                "bos_token": self._card.bos_token or None,
                "eos_token": self._card.eos_token or None,
                "pad_token": None,
                "chat_template": self._card.chat_template,
            }
        )

    def _open(self, request: web.Request, body: bytes) -> AbstractContextManager[TextCall]:
        return self._dispatcher.text_room.open(request[CALLER].tenant, len(body))

    async def _answers(self, texts: Texts, call: TextCall) -> list[Answer]:
        """One after the other, so that a long list does not hold up the prompts of others."""
        answers = []
        for question in texts.questions:
            answers.append(Answer.of(await self._dispatcher.text(question, call, TEXT_TIMEOUT_S)))
            call.hold(answers[-1].size)
        return answers


async def _sent(request: web.Request, body: Any) -> web.StreamResponse:
    """A long reply counts as held until the client has taken it."""
    response = json_response(body)
    await response.prepare(request)
    await response.write_eof()
    return response


def _json(part: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(part))


def _of_all(parts: list[Any], texts: Texts) -> Any:
    return parts if texts.is_list else parts[0]
