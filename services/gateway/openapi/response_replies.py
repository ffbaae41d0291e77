"""What responses of /v1/responses and the events of their streams look like, as structs. See `replies`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from services.gateway.openapi.replies import Described, ErrorParts, TokenLogprob
from services.gateway.replies.response_items import ItemStatus
from services.gateway.replies.responses import Status

# --- items -----------------------------------------------------------------------------------------------------------


class InputText(Described, frozen=True, tag="input_text"):
    text: str


class OutputText(Described, frozen=True, tag="output_text"):
    text: str
    annotations: list[Any]
    logprobs: list[TokenLogprob]


class MessageItem(Described, frozen=True, tag="message"):
    id: str
    status: ItemStatus
    role: Literal["user", "assistant", "system", "developer"]
    content: list[InputText | OutputText]


class CallItem(Described, frozen=True, tag="function_call"):
    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


class CallOutputItem(Described, frozen=True, tag="function_call_output"):
    id: str
    status: ItemStatus
    call_id: str
    output: str


class ReasoningText(Described, frozen=True, tag="reasoning_text"):
    text: str


class ReasoningItem(Described, frozen=True, tag="reasoning"):
    """Sent back by a client, it is listed without its text."""

    id: str
    status: ItemStatus
    summary: list[Any]
    content: list[ReasoningText] | UnsetType = UNSET


OutputItem: TypeAlias = MessageItem | CallItem | ReasoningItem


class ItemList(Described, frozen=True):
    object: Literal["list"]
    data: list[OutputItem | CallOutputItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


# --- responses -------------------------------------------------------------------------------------------------------


class InputTokensDetails(Described, frozen=True):
    cached_tokens: int
    cache_write_tokens: Literal[0]


class OutputTokensDetails(Described, frozen=True):
    reasoning_tokens: int


class ResponseUsage(Described, frozen=True):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class ResponseError(Described, frozen=True):
    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    message: str
    param: str | None


class IncompleteDetails(Described, frozen=True):
    reason: Literal["max_output_tokens"]


class NoReasoning(Described, frozen=True):
    effort: None
    summary: None


class Response(Described, frozen=True):
    """From `background` on, what was asked for."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Status
    model: str
    output: list[OutputItem]
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    usage: ResponseUsage | None  # once it has ended
    max_tool_calls: None
    reasoning: NoReasoning
    service_tier: Literal["default"]
    background: bool
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"]
    user: str | None


class DeletedResponse(Described, frozen=True):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


# --- events ----------------------------------------------------------------------------------------------------------


class Numbered(Described, frozen=True, kw_only=True):
    """Base of events."""

    sequence_number: int


class Created(Numbered, frozen=True, tag="response.created"):
    response: Response


class InProgress(Numbered, frozen=True, tag="response.in_progress"):
    response: Response


class ItemAdded(Numbered, frozen=True, tag="response.output_item.added"):
    output_index: int
    item: OutputItem


class PartAdded(Numbered, frozen=True, tag="response.content_part.added"):
    item_id: str
    output_index: int
    content_index: int
    part: OutputText | ReasoningText


class OutputTextDelta(Numbered, frozen=True, tag="response.output_text.delta"):
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[TokenLogprob]


class OutputTextDone(Numbered, frozen=True, tag="response.output_text.done"):
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[TokenLogprob]


class PartDone(Numbered, frozen=True, tag="response.content_part.done"):
    item_id: str
    output_index: int
    content_index: int
    part: OutputText | ReasoningText


class ReasoningDelta(Numbered, frozen=True, tag="response.reasoning_text.delta"):
    item_id: str
    output_index: int
    content_index: int
    delta: str


class ReasoningDone(Numbered, frozen=True, tag="response.reasoning_text.done"):
    item_id: str
    output_index: int
    content_index: int
    text: str


class ArgumentsDelta(Numbered, frozen=True, tag="response.function_call_arguments.delta"):
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(Numbered, frozen=True, tag="response.function_call_arguments.done"):
    item_id: str
    output_index: int
    name: str
    arguments: str


class ItemDone(Numbered, frozen=True, tag="response.output_item.done"):
    output_index: int
    item: OutputItem


class Completed(Numbered, frozen=True, tag="response.completed"):
    response: Response


class Incomplete(Numbered, frozen=True, tag="response.incomplete"):
    response: Response


class ErrorEvent(Numbered, frozen=True, tag="error"):
    """The parts of the error stand where OpenAI documents them, and where its clients look for them."""

    message: str
    param: str | None
    code: str | None
    error: ErrorParts


ResponseEvent: TypeAlias = (
    Created
    | InProgress
    | ItemAdded
    | PartAdded
    | OutputTextDelta
    | OutputTextDone
    | PartDone
    | ReasoningDelta
    | ReasoningDone
    | ArgumentsDelta
    | ArgumentsDone
    | ItemDone
    | Completed
    | Incomplete
    | ErrorEvent
)
