"""The routes of the tokenizer on its own: text to token ids and back, and what a client's own tokenizer has to know."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from services.gateway.bodies import read_body
from services.gateway.dispatch import Dispatcher
from services.gateway.limits import Limits
from services.gateway.schemas.anthropic import read_count
from services.gateway.schemas.text import Texts, read_detokenize, read_tokenize
from services.gateway.sse import json_response
from shared import wire
from shared.model_card import ModelCard
from shared.reasoning_format import reasoning_format
from shared.tool_format import tool_format

TEXT_TIMEOUT_S = 30.0


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

    async def tokenize(self, request: web.Request) -> web.Response:
        texts = read_tokenize(await read_body(request), self._limits, self._tool_format)
        replies = await self._replies(texts)
        has_tokens = any(question.with_tokens for question in texts.questions)
        return json_response(
            {
                "count": _of_all([reply.count for reply in replies], texts),
                "max_model_len": self._limits.max_model_len,
                "tokens": _of_all([reply.token_ids for reply in replies], texts),
                "token_strs": _of_all([reply.tokens for reply in replies], texts) if has_tokens else None,
            }
        )

    async def detokenize(self, request: web.Request) -> web.Response:
        """The same text under vLLM's name and under SGLang's."""
        texts = read_detokenize(await read_body(request), self._limits)
        text = _of_all([reply.text for reply in await self._replies(texts)], texts)
        return json_response({"prompt": text, "text": text})

    async def count(self, request: web.Request) -> web.Response:
        """Of a conversation, as Anthropic has it."""
        question = read_count(await read_body(request), self._limits, self._tool_format, self._reasoning)
        return json_response({"input_tokens": (await self._dispatcher.text(question, TEXT_TIMEOUT_S)).count})

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

    async def _replies(self, texts: Texts) -> list[wire.TextReply]:
        """One after the other, so that a long list does not hold up the prompts of others."""
        return [await self._dispatcher.text(question, TEXT_TIMEOUT_S) for question in texts.questions]


def _of_all(parts: list[Any], texts: Texts) -> Any:
    return parts if texts.is_list else parts[0]
