"""JSON schemas of requests' bodies by name, each made of the struct that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.gateway.openapi.anthropic_bodies import ANTHROPIC_BODIES
from services.gateway.openapi.body_schema import Json, array, body_schema, exactly_one, one_or_more, or_null, ref
from services.gateway.openapi.response_bodies import RESPONSE_BODIES
from services.gateway.replies.openai import StreamOptions
from services.gateway.schemas import abort, chat, completions, messages, native, native_lists, text

MESSAGES: Json = array(ref("Message")) | {"minItems": 1}
MESSAGE_PARTS: Mapping[str, Json] = {
    "content": {"anyOf": [{"type": "string"}, array(ref("ContentPart"))]},
    "tool_calls": array(ref("MessageToolCall")),
    "tool_call_id": {"type": "string"},
}


def _message(*roles: str, needed: Sequence[str], optional: Sequence[str] = ()) -> Json:
    """What messages of these roles hold."""
    schema = body_schema(messages.MessageFields, messages.MESSAGE_RULES, MESSAGE_PARTS)
    others = {
        name: field for name, field in schema["properties"].items() if name in optional or name not in MESSAGE_PARTS
    }
    properties = others | {"role": {"enum": roles}} | {name: MESSAGE_PARTS[name] for name in needed}
    return schema | {"properties": properties, "required": ["role", *needed]}


def _generate() -> Json:
    sampling = body_schema(native.NativeSampling, native.SAMPLING_RULES)["properties"]
    schema = body_schema(native.NativeFields, native.BODY_RULES)
    own = schema["properties"]
    for name in native_lists.LISTS:
        own[name] = or_null(one_or_more(own.get(name) or ref("NativeSampling")))
    for name in ("text", "prompt"):
        own[name] = or_null(one_or_more({"type": "string"}))
    own["input_ids"] = or_null(one_or_more(array({"type": "integer"})))
    own["messages"] = or_null(one_or_more(MESSAGES))
    return schema | {"properties": own | sampling} | exactly_one(*native_lists.PROMPTS)


BODIES: Mapping[str, Json] = {
    **RESPONSE_BODIES,
    **ANTHROPIC_BODIES,
    "ChatRequest": body_schema(
        chat.ChatFields,
        chat.BODY_RULES,
        {"messages": MESSAGES, "tools": array(ref("Tool")), "stream_options": ref("StreamOptions")},
    ),
    "Message": {
        "anyOf": [
            _message("system", "developer", "user", needed=["content"]),
            _message("assistant", needed=["content"], optional=["tool_calls"]),
            _message("assistant", needed=["tool_calls"], optional=["content"]),
            _message("tool", needed=["content", "tool_call_id"]),
        ]
    },
    "ContentPart": body_schema(messages.PartFields),
    "MessageToolCall": body_schema(
        messages.CallFields,
        messages.CALL_RULES,
        {"function": body_schema(messages.FunctionCallFields, messages.FUNCTION_RULES)},
    ),
    "CompletionRequest": body_schema(
        completions.CompletionFields,
        completions.BODY_RULES,
        {
            "prompt": {"anyOf": [{"type": "string"}, array({"type": ["string", "integer", "array"]})]},
            "stream_options": ref("StreamOptions"),
        },
    ),
    "StreamOptions": body_schema(StreamOptions),
    "Tool": {
        "type": "object",
        "properties": {
            "type": {"const": "function"},
            "function": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
                    "description": {"type": ["string", "null"]},
                    "parameters": {"type": ["object", "null"]},
                    "strict": {"type": ["boolean", "null"]},
                },
                "required": ["name"],
            },
        },
        "required": ["type", "function"],
    },
    "GenerateRequest": _generate(),
    "NativeSampling": body_schema(native.NativeSampling, native.SAMPLING_RULES),
    "AbortRequest": body_schema(abort.AbortFields, abort.RULES),
    "TokenizeRequest": body_schema(
        text.TokenizeFields, text.TOKENIZE_RULES, {"messages": MESSAGES, "tools": array(ref("Tool"))}
    )
    | exactly_one("prompt", "messages"),
    "DetokenizeRequest": body_schema(text.DetokenizeFields),
}
