"""What Anthropic's replies and the events of their streams look like, as structs. See `replies`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from services.gateway.openapi.replies import Described

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class TextBlock(Described, frozen=True, tag="text"):
    text: str


class ToolUseBlock(Described, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ThinkingBlock(Described, frozen=True, tag="thinking"):
    thinking: str
    signature: str


ContentBlock: TypeAlias = TextBlock | ToolUseBlock | ThinkingBlock


class MessageUsage(Described, frozen=True):
    """The prompt has as many tokens as its three parts together."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class AnthropicMessage(Described, frozen=True):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None  # null where a stream begins
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(Described, frozen=True):
    input_tokens: int


# --- events ----------------------------------------------------------------------------------------------------------


class MessageStart(Described, frozen=True, tag="message_start"):
    message: AnthropicMessage


class ContentBlockStart(Described, frozen=True, tag="content_block_start"):
    index: int
    content_block: ContentBlock


class TextDelta(Described, frozen=True, tag="text_delta"):
    text: str


class InputJsonDelta(Described, frozen=True, tag="input_json_delta"):
    partial_json: str


class ThinkingDelta(Described, frozen=True, tag="thinking_delta"):
    thinking: str


class ContentBlockDelta(Described, frozen=True, tag="content_block_delta"):
    index: int
    delta: TextDelta | InputJsonDelta | ThinkingDelta


class ContentBlockStop(Described, frozen=True, tag="content_block_stop"):
    index: int


class Stop(Described, frozen=True):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(Described, frozen=True, tag="message_delta"):
    delta: Stop
    usage: MessageUsage


class MessageStop(Described, frozen=True, tag="message_stop"):
    pass


MessageEvent: TypeAlias = (
    MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta | MessageStop
)
