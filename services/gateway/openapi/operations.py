"""What can be asked of the server: one entry for each route. Knows shapes and statuses; serves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.gateway.openapi import anthropic_replies, replies, response_replies

OPENAI, ANTHROPIC, NATIVE = "OpenAI", "Anthropic", "Native"
TOKENIZER, OPERATION = "Tokenizer", "Operation"

KEYED = (400, 401, 403, 500)
ASKING = (*KEYED, 503, 504)  # of another stage
BODY = (408, 413, 415)
READING = (*ASKING, *BODY, 404, 429)  # a body, and asking another stage about it
GENERATING = (*READING, 501)
STORED = (*KEYED, 404)
SHOWN = (401, 403, 500)

RESPONSE = "/v1/responses/{response_id}"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    summary: str
    tag: str
    reply: Any  # a type; None for what is no JSON
    errors: tuple[int, ...] = KEYED
    body: str | None = None  # its name among the bodies
    event: Any = None  # a type: each event, if it can be a stream
    named_events: bool = False  # the stream ends with its last event, not with [DONE]
    unwell: tuple[int, ...] = ()  # further statuses with the same reply
    media_type: str = "text/plain"  # of what is no JSON


OPERATIONS = (
    Operation(
        *("POST", "/v1/chat/completions", "Go on with a conversation", OPENAI, replies.ChatCompletion, GENERATING),
        body="ChatRequest",
        event=replies.ChatCompletionChunk,
    ),
    Operation(
        *("POST", "/v1/completions", "Go on with a text", OPENAI, replies.Completion, GENERATING),
        body="CompletionRequest",
        event=replies.CompletionChunk,
    ),
    Operation(
        *("POST", "/v1/responses", "Go on with a conversation", OPENAI, response_replies.Response, GENERATING),
        body="ResponseRequest",
        event=response_replies.ResponseEvent,
        named_events=True,
    ),
    Operation("GET", RESPONSE, "A stored response", OPENAI, response_replies.Response, STORED),
    Operation("DELETE", RESPONSE, "Forget a response", OPENAI, response_replies.DeletedResponse, STORED),
    Operation("POST", f"{RESPONSE}/cancel", "End one in the background", OPENAI, response_replies.Response, STORED),
    Operation("GET", f"{RESPONSE}/input_items", "What it goes on from", OPENAI, response_replies.ItemList, STORED),
    Operation("GET", "/v1/models", "The model that is served", OPENAI, replies.ModelList),
    Operation("GET", "/v1/models/{model_id}", "One model", OPENAI, replies.Model, (*KEYED, 404)),
    Operation(
        *("POST", "/v1/messages", "Go on with a conversation", ANTHROPIC),
        *(anthropic_replies.AnthropicMessage, GENERATING),
        body="MessagesRequest",
        event=anthropic_replies.MessageEvent,
        named_events=True,
    ),
    Operation(
        *("POST", "/v1/messages/count_tokens", "How long a conversation is", ANTHROPIC),
        *(anthropic_replies.TokenCount, READING),
        body="CountTokensRequest",
    ),
    Operation(
        *("POST", "/generate", "Go on with a text or with token ids", NATIVE),
        *(replies.Generation | list[replies.Generation], GENERATING),
        body="GenerateRequest",
        event=replies.Generation,
    ),
    Operation(
        *("POST", "/abort_request", "End what was sent with this rid", NATIVE, replies.Nothing, (*KEYED, *BODY, 503)),
        body="AbortRequest",
    ),
    *(
        operation
        for prefix in ("", "/v1")
        for operation in (
            Operation(
                *("POST", f"{prefix}/tokenize", "Text to token ids", TOKENIZER, replies.Tokenized, READING),
                body="TokenizeRequest",
            ),
            Operation(
                *("POST", f"{prefix}/detokenize", "Token ids to text", TOKENIZER, replies.Detokenized, READING),
                body="DetokenizeRequest",
            ),
        )
    ),
    Operation("GET", "/tokenizer_info", "Special tokens and the chat template", TOKENIZER, replies.TokenizerInfo),
    Operation("GET", "/health", "Whether every stage gets on", OPERATION, replies.Health, (403, 500), unwell=(503,)),
    Operation("GET", "/ready", "Whether to send work here", OPERATION, replies.Readiness, (403, 500), unwell=(503,)),
    Operation(
        *("GET", "/health_generate", "Whether a token comes", OPERATION, replies.Health, KEYED),
        unwell=(503,),
    ),
    Operation("GET", "/metrics", "For Prometheus", OPERATION, None, (403, 500)),
    Operation("GET", "/model_info", "What the model is", NATIVE, replies.ModelInfo),
    Operation("GET", "/get_model_info", "What the model is", NATIVE, replies.ModelInfo),
    Operation("GET", "/server_info", "What each stage says of itself", OPERATION, replies.ServerInfo, ASKING),
    Operation("GET", "/cache", "The shape of the prefix cache", OPERATION, replies.CacheSums, ASKING),
    Operation("GET", "/flush_cache", "Empty the prefix cache", OPERATION, replies.Flushed, ASKING),
    Operation("POST", "/flush_cache", "Empty the prefix cache", OPERATION, replies.Flushed, ASKING),
    Operation(
        *("GET", "/dashboard", "What the server does, drawn: a page", OPERATION, None, SHOWN),
        media_type="text/html",
    ),
    Operation(
        *("GET", "/dashboard/assets/{name}", "A part of the page", OPERATION, None, (*SHOWN, 404)),
        media_type="*/*",
    ),
    Operation(
        *("GET", "/dashboard/events", "Log lines as they are written", OPERATION, None, (*KEYED, 404)),
        media_type=EVENTS,
    ),
    Operation("GET", "/openapi.json", "This document", OPERATION, dict[str, Any]),
)
