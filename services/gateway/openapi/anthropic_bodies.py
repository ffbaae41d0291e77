"""JSON schemas of the bodies that Anthropic's clients send, by name. Parts are named as these clients name them."""

from __future__ import annotations

from collections.abc import Mapping

from services.gateway.openapi.body_schema import Json, array, body_schema, ref
from services.gateway.schemas import (
    anthropic,
    anthropic_format,
    anthropic_messages,
    anthropic_thinking,
    anthropic_tools,
)

TEXTS: Json = {"anyOf": [{"type": "string"}, array(ref("TextBlockParam"))]}
PARTS: Mapping[str, Json] = {
    "messages": array(ref("MessageParam")) | {"minItems": 1},
    "system": TEXTS,
    "tools": array(ref("ToolParam")),
    "tool_choice": body_schema(anthropic_tools.ChoiceFields),
    "thinking": body_schema(anthropic_thinking.ThinkingFields),
    "output_config": body_schema(
        anthropic_format.ConfigFields, anthropic_format.CONFIG_RULES, {"format": ref("JSONOutputFormat")}
    ),
    "output_format": ref("JSONOutputFormat"),
}


def _message(role: anthropic_messages.Role, *blocks: Json) -> Json:
    content = {"anyOf": [{"type": "string"}, array({"anyOf": [ref("TextBlockParam"), *blocks]})]}
    schema = body_schema(anthropic_messages.MessageFields, parts={"content": content})
    return schema | {"properties": {**schema["properties"], "role": {"const": role}}}


def _dropped(kind: str) -> Json:
    """Whatever it holds."""
    return {"type": "object", "properties": {"type": {"const": kind}}, "required": ["type"]}


ANTHROPIC_BODIES: Mapping[str, Json] = {
    "MessagesRequest": body_schema(anthropic.MessagesFields, anthropic.BODY_RULES, PARTS),
    "CountTokensRequest": body_schema(anthropic.CountFields, anthropic.COUNT_RULES, PARTS),
    "MessageParam": {
        "anyOf": [
            _message("user", ref("ToolResultBlockParam")),
            _message("assistant", ref("ToolUseBlockParam"), *map(_dropped, ("thinking", "redacted_thinking"))),
            _message("system"),
        ]
    },
    "TextBlockParam": body_schema(anthropic_messages.TextFields, anthropic_messages.TEXT_RULES),
    "ToolUseBlockParam": body_schema(anthropic_messages.ToolUseFields, anthropic_messages.TOOL_RULES),
    "ToolResultBlockParam": body_schema(
        anthropic_messages.ToolResultFields, anthropic_messages.TOOL_RULES, {"content": TEXTS}
    ),
    "ToolParam": body_schema(
        anthropic_tools.ToolFields,
        anthropic_tools.TOOL_RULES,
        {"name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}},
    ),
    "JSONOutputFormat": body_schema(anthropic_format.FormatFields),
}
