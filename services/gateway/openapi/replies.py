"""What replies look like, as structs: described by them in the OpenAPI document, and checked against them by tests.

Nothing is answered with these; `services.gateway.replies` makes the JSON. A field that may be absent has UNSET.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]


class Described(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of replies and of their parts."""


# --- errors ----------------------------------------------------------------------------------------------------------


class ErrorParts(Described, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(Described, frozen=True):
    error: ErrorParts


class AnthropicErrorParts(Described, frozen=True):
    type: str
    message: str


class AnthropicError(Described, frozen=True):
    type: Literal["error"]
    error: AnthropicErrorParts
    request_id: str


# --- OpenAI ----------------------------------------------------------------------------------------------------------


class PromptTokensDetails(Described, frozen=True):
    cached_tokens: int


class Usage(Described, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class FunctionCall(Described, frozen=True):
    name: str
    arguments: str


class ToolCall(Described, frozen=True):
    id: str
    type: Literal["function"]
    function: FunctionCall


class AssistantMessage(Described, frozen=True):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[ToolCall] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class TopLogprob(Described, frozen=True):
    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Described, frozen=True):
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Described, frozen=True):
    content: list[TokenLogprob]
    refusal: None


class ChatChoice(Described, frozen=True):
    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(Described, frozen=True):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class FunctionCallDelta(Described, frozen=True):
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class ToolCallDelta(Described, frozen=True):
    """`id`, `type` and the name come once, with the first piece of each call."""

    index: int
    function: FunctionCallDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


class ChatDelta(Described, frozen=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChatChunkChoice(Described, frozen=True):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatCompletionChunk(Described, frozen=True):
    """`choices` is empty in the one with the totals, which comes last."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET


class CompletionLogprobs(Described, frozen=True):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(Described, frozen=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None  # null in a chunk that is not a choice's last


class Completion(Described, frozen=True):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunk(Described, frozen=True):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET


class Model(Described, frozen=True):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(Described, frozen=True):
    object: Literal["list"]
    data: list[Model]


# --- native ----------------------------------------------------------------------------------------------------------

Triple: TypeAlias = tuple[float | None, int, str | None]  # log-probability, token id, text


class NativeFinish(Described, frozen=True):
    """`length` goes with the type of this name, `matched` with stop, `message` with abort."""

    type: Literal["stop", "length", "abort"]
    length: int | UnsetType = UNSET
    matched: int | str | UnsetType | None = UNSET
    message: str | UnsetType = UNSET


class MetaInfo(Described, frozen=True):
    id: str
    finish_reason: NativeFinish | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: float | UnsetType = UNSET
    input_token_logprobs: list[Triple] | UnsetType = UNSET
    output_token_logprobs: list[Triple] | UnsetType = UNSET
    input_top_logprobs: list[list[Triple] | None] | UnsetType = UNSET
    output_top_logprobs: list[list[Triple] | None] | UnsetType = UNSET


class Generation(Described, frozen=True):
    """In a stream each event holds all output so far; `index` is there if there are several."""

    text: str
    output_ids: list[int]
    meta_info: MetaInfo
    index: int | UnsetType = UNSET


class Nothing(Described, frozen=True):
    pass


# --- tokenizing ------------------------------------------------------------------------------------------------------


class Tokenized(Described, frozen=True):
    """Of a list of prompts, lists."""

    count: int | list[int]
    max_model_len: int
    tokens: list[int | list[int]]
    token_strs: list[str | list[str]] | None


class Detokenized(Described, frozen=True):
    """The same under two names."""

    prompt: str | list[str]
    text: str | list[str]


class TokenizerInfo(Described, frozen=True):
    tokenizer_class: str
    model_max_length: int
    add_bos_token: bool
    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    chat_template: str | None


# --- operations ------------------------------------------------------------------------------------------------------


class Health(Described, frozen=True):
    version: str
    status: Literal["healthy", "unhealthy"]
    stages: dict[str, str] | UnsetType = UNSET  # what is wrong, by stage


class MissingStage(Described, frozen=True):
    missing_s: float
    lost: int  # how often one of its processes has left


class UnwellProcess(Described, frozen=True):
    state: Literal["starting", "compiling", "waiting", "stands still", "stopped"]
    state_s: float
    restarts: int
    next_start_s: float | None  # while it waits for that


class Readiness(Described, frozen=True):
    status: Literal["ready", "not ready", "draining"]
    missing: list[str] | UnsetType = UNSET
    stages: dict[str, MissingStage] | UnsetType = UNSET
    processes: dict[str, UnwellProcess] | UnsetType = UNSET  # of the gateway's machine


class ModelInfo(Described, frozen=True):
    model_path: str
    model_id: str
    architecture: str
    is_generation: Literal[True]
    max_model_len: int
    vocab_size: int


class ServerInfo(Described, frozen=True):
    version: str
    limits: dict[str, Any]
    stages: dict[str, int]
    scheduler: dict[str, Any]
    executors: dict[str, Any]


class CacheSums(msgspec.Struct, frozen=True):
    nodes: int
    cached_tokens: int
    pinned_tokens: int
    evictable_tokens: int
    hit_tokens: int
    miss_tokens: int
    evicted_tokens: int
    hit_rate: float
    executors: dict[str, dict[str, Any]]


class Flushed(Described, frozen=True):
    status: Literal["flushed"]
    freed_tokens: int
